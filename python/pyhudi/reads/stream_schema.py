"""The columns of a stream, which stay those of its start: where another schema begins, it ends.

Invariant: no batch has rows of a commit whose columns the stream does not know. A query is planned
once, so it cannot take up a column while it runs; the one that is started next has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyhudi.errors import SchemaConflict
from pyhudi.format.instants import Instant
from pyhudi.format.spark_schema import SparkSchema


def differs(ours: SparkSchema, theirs: SparkSchema) -> bool:
    """Whether names or types differ; nullability and comments do not count."""
    return _kinds(ours) != _kinds(theirs)


def schema_barrier(
    table_name: str, commit: Instant, ours: SparkSchema, theirs: SparkSchema
) -> SchemaConflict:
    """The error of a stream with the columns ``ours`` that has come to ``commit``."""
    mine, its = ours.types, theirs.types
    added = [name for name in its if name not in mine]
    gone = [name for name in mine if name not in its]
    other = [n for n in mine if n in its and _plain(mine[n]) != _plain(its[n])]
    again = (
        "Everything before it has been read. Start the query again with the same checkpoint: it "
        "goes on from here with the columns of now. No option takes them up while a query runs."
    )
    if gone:
        new = f" and has the new {_named(added)}" if added else ""
        return SchemaConflict(
            f"The commit {commit.time} of {table_name} no longer has the {_named(gone)}{new}: "
            f"columns were dropped or renamed, and this stream reads them. {again} Change what "
            "the query does with them first.",
            column=gone[0],
            ours=mine[gone[0]],
            rule="a stream ends where a column of its own ends",
        )
    what = [f"adds the {_named(added)}"] if added else []
    what += [f"changes the type of the {_named(other)}"] if other else []
    first = (added or other)[0]
    return SchemaConflict(
        f"The commit {commit.time} of {table_name} {' and '.join(what)}, which this stream was "
        f"started without. {again}",
        column=first,
        ours=mine.get(first),
        theirs=its[first],
        rule="a stream ends where a new column begins",
    )


def _kinds(schema: SparkSchema) -> dict[str, Any]:
    return {name: _plain(kind) for name, kind in schema.types.items()}


def _named(names: list[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _plain(kind: Any) -> Any:
    """A type without what Spark adds to it: whether values may be null, and comments."""
    if isinstance(kind, Mapping):
        kept = {k: _plain(v) for k, v in kind.items() if k not in _SAID}
        return {k: kept[k] for k in sorted(kept)}
    if isinstance(kind, list):
        return [_plain(each) for each in kind]
    return kind


_SAID = frozenset({"nullable", "metadata", "containsNull", "valueContainsNull"})
