"""Versions of a table's schema in which columns have ids: Hudi's InternalSchema.

Rules: spec/schema_evolution.md S4.

A column keeps its id when its name, position or type changes, and no id is used twice. A commit
records its version in ``extraMetadata.latest_schema``; ``.hoodie/.schema`` has all versions, newest
first. Columns are kept as the JSON that was read, so the same text is written again.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyhudi.format.corruption import corrupt
from pyhudi.format.instants import InstantTime

LATEST_SCHEMA_KEY = "latest_schema"
SCHEMA_FOLDER = ".hoodie/.schema"
ACTION = "schemacommit"
_RULE = "a schema history is JSON with schemas whose columns have ids (spec/schema_evolution.md S4)"
_HISTORY = '{"schemas":['

Json = Any


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version; ``version_id`` is the instant that made it, 0 before the first change.

    ``fields`` are Hudi's columns in their order, meta columns first: JSON objects with ``id``,
    ``name``, ``optional``, ``type`` and perhaps ``doc``.
    """

    version_id: int
    max_column_id: int
    fields: tuple[Mapping[str, Json], ...]

    def has_columns_of(self, other: SchemaVersion) -> bool:
        """Whether both give the columns of a file the same ids and types."""
        return (self.fields, self.max_column_id) == (other.fields, other.max_column_id)

    def only(self, names: Container[str]) -> SchemaVersion:
        """The columns with these names, in lower case; the ids of the others stay taken."""
        kept = tuple(field for field in self.fields if field["name"].lower() in names)
        return replace(self, fields=kept)

    def paths(self) -> Iterator[tuple[int, str]]:
        """(id, dotted name) of every column and field."""
        yield from _paths(self.fields, "")


def _paths(fields: Iterable[Mapping[str, Json]], above: str) -> Iterator[tuple[int, str]]:
    for field in fields:
        name = above + field["name"]
        yield int(field["id"]), name
        yield from _inner_paths(field["type"], name)


def _inner_paths(kind: Json, name: str) -> Iterator[tuple[int, str]]:
    if isinstance(kind, str):
        return
    if kind["type"] == "record":
        yield from _paths(kind["fields"], f"{name}.")
    elif kind["type"] == "array":
        yield from _inner_paths(kind["element"], f"{name}.element")
    else:
        yield from _inner_paths(kind["value"], f"{name}.value")


def parse_version(text: str, path: str) -> SchemaVersion:
    """The version in ``latest_schema`` of the commit at ``path``; ``TableCorrupt``."""
    return _version(_loaded(text, path), path)


def render_version(version: SchemaVersion) -> str:
    """The text for ``latest_schema``, as Hudi writes it."""
    record = {
        "max_column_id": version.max_column_id,
        "version_id": version.version_id,
        "type": "record",
        "fields": list(version.fields),
    }
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def parse_history(text: str, path: str) -> tuple[SchemaVersion, ...]:
    """The versions in the history file at ``path``, newest first; ``TableCorrupt``."""
    found = _loaded(text, path)
    schemas = found.get("schemas") if isinstance(found, dict) else None
    if not isinstance(schemas, list) or not schemas:
        raise corrupt(path, _RULE, "there are no schemas in it")
    versions = [_version(each, path) for each in schemas]
    return tuple(sorted(versions, key=lambda v: v.version_id, reverse=True))


def render_history(versions: Sequence[SchemaVersion]) -> str:
    """The text of a history file; ``versions`` are newest first."""
    return _HISTORY + ",".join(map(render_version, versions)) + "]}"


def version_at(versions: Sequence[SchemaVersion], time: InstantTime) -> SchemaVersion | None:
    """The version that was valid at an instant; None before the oldest version."""
    held = [v for v in versions if v.version_id <= int(time)]
    return max(held, key=lambda v: v.version_id, default=None)


def history_file(time: InstantTime, completion: InstantTime | None, layout: int) -> str:
    """The path, relative to the table, of the history that commit ``time`` saves."""
    name = time if layout == 1 else f"{time}_{completion}"
    return f"{SCHEMA_FOLDER}/{name}.{ACTION}"


def history_time(name: str) -> InstantTime | None:
    """The instant in a history file's name; None for files of other kinds and states."""
    stem, dot, kind = name.partition(".")
    time = stem.partition("_")[0]
    return InstantTime(time) if dot and kind == ACTION and time.isdigit() else None


def _loaded(text: str, path: str) -> Json:
    try:
        return json.loads(text)
    except ValueError as cause:
        raise corrupt(path, _RULE, f"it is not JSON ({cause})") from cause


def _version(record: Json, path: str) -> SchemaVersion:
    try:
        version = SchemaVersion(
            int(record["version_id"]), int(record["max_column_id"]), tuple(record["fields"])
        )
        for field in version.fields:
            _check(field)
        return version
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise corrupt(path, _RULE, f"a column lacks {cause}") from cause


def _check(field: Mapping[str, Json]) -> None:
    """``KeyError``, ``TypeError`` or ``ValueError`` if a field lacks a part."""
    _require(field, "id", "name", "optional")
    _check_type(field["type"])


def _check_type(kind: Json) -> None:
    if isinstance(kind, str):
        return
    if kind["type"] == "record":
        for field in kind["fields"]:
            _check(field)
    elif kind["type"] == "array":
        _require(kind, "element_id", "element_optional")
        _check_type(kind["element"])
    elif kind["type"] == "map":
        _require(kind, "key_id", "value_id", "value_optional")
        _check_type(kind["key"])
        _check_type(kind["value"])
    else:
        raise ValueError(f"a known type: {kind['type']}")


def _require(entry: Mapping[str, Json], *names: str) -> None:
    for name in names:
        if name.endswith("id"):
            int(entry[name])
        elif entry[name] is None:
            raise ValueError(name)
