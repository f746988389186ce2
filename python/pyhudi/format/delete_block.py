"""Delete blocks: keys to delete, each with an ordering value (spec/log_files.md L5).

Workers read it, so this module and what it imports need only pyarrow.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from pyhudi.errors import UnsupportedTable
from pyhudi.format.avro_values import Decode, decoder
from pyhudi.format.corruption import corrupt

RULE = "a delete block holds keys with ordering values (spec/log_files.md L5)"
VERSION = 3
_HEAD = ">ii"
_HEAD_BYTES = 8

#: the kinds of ordering values, in the order of the union's branches after null
_KINDS: tuple[tuple[str, Any], ...] = (
    ("boolean", "boolean"),
    ("int", "int"),
    ("long", "long"),
    ("float", "float"),
    ("double", "double"),
    ("bytes", "bytes"),
    ("string", "string"),
    ("date", "int"),
    (
        "decimal",
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    ),
    ("time", "long"),
    ("timestamp", "long"),
)


@dataclass(frozen=True, slots=True)
class Deleted:
    """A key to delete, and the ordering values of the delete, each with its kind.

    Without ordering values, ``order`` is empty, the delete always wins.
    """

    key: str
    order: tuple[tuple[str, Any], ...]


def deleted_keys(content: bytes, path: str) -> list[Deleted]:
    """The deletes of a block, in its order.

    ``UnsupportedTable`` for a block from before Hudi 0.14, which holds serialized Java objects;
    ``TableCorrupt`` with ``path`` for one that does not decode.
    """
    try:
        version, size = struct.unpack_from(_HEAD, content)
        _check(version, path)
        data = content[_HEAD_BYTES : _HEAD_BYTES + size]
        if len(data) != size:
            raise ValueError(f"it announces {size} bytes and has {len(data)}")
        found, _ = _decoder()(data, 0)
        if any(each["key"] is None for each in found["deletes"]):
            raise ValueError("a delete has no key")
    except (struct.error, IndexError, ValueError) as error:
        raise corrupt(path, RULE, f"a block does not decode ({error!r})") from error
    return [Deleted(each["key"], _order(each["order"])) for each in found["deletes"]]


def _check(version: int, path: str) -> None:
    if version == VERSION:
        return
    what = "which pyhudi does not know"
    if 0 < version < VERSION:
        what = "as Apache Hudi wrote them before 0.14: its content are Java objects"
    raise UnsupportedTable(
        f"{path} has a delete block of version {version}, {what}. Let Apache Hudi compact the "
        "table, then read it again.",
        feature=f"delete blocks of version {version}",
    )


def _order(value: dict[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    if value is None:
        return ()
    ((kind, held),) = value.items()
    if kind != "several":
        return () if (kind, held) == ("int", 0) else ((kind, held),)
    parts: list[dict[str, Any] | None] = held or []
    if len(parts) == 1:
        return _order(parts[0])
    # Among several values an int 0 is one like others.
    return tuple(next(iter(each.items())) if each else ("null", None) for each in parts)


def _decoder() -> Decode:
    """Avro's bytes hold no names, so each wrapper's field is named after its kind here."""
    wrappers = [_record(f"{kind}_value", (kind, form)) for kind, form in _KINDS]
    names = [f"{kind}_value" for kind, _ in _KINDS]
    local = _record("local_value", ("date", "int"))
    several = ["null", {"type": "array", "items": ["null", *names, local]}]
    order = ["null", *wrappers, _record("several_values", ("several", several))]
    text = ["null", "string"]
    each = _record("delete", ("key", text), ("partition", text), ("order", order))
    return decoder(json.dumps(_record("deletes", ("deletes", {"type": "array", "items": each}))))


def _record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    held = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "fields": held}
