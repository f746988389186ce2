"""Applies the column changes of ALTER TABLE to a schema whose columns have ids.

A change is allowed if old files stay readable: types widen, and new columns are null in old rows.
Names and positions may change, since files are read by ids. Columns of keys, partitions and the
ordering keep their names.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyhudi.errors import SchemaConflict
from pyhudi.format.column_ids import ID, Identified, all_ids, with_new_ids, without_ids
from pyhudi.format.schemas import HIDDEN_COLUMNS, avro_to_spark, spark_to_avro, type_text
from pyhudi.format.table_config import TableConfig
from pyhudi.format.widening import merged_type
from pyhudi.tables.columns import check_names, partitions_last

#: {"change": "add", "column", "type", "nullable", "position"?}, {"change": "type", "column",
#: "type"}, {"change": "rename", "column", "to"}, {"change": "position", "column", "position"},
#: {"change": "drop" or "nullable", "column"}. A column is a dotted path; ``element``, ``key`` and
#: ``value`` are the parts of lists and maps. A position is "" for first, or the column before.
ColumnChange = Mapping[str, Any]
Fields = list[dict[str, Any]]


@dataclass(slots=True)
class _Columns:
    """The columns while changes are applied; ``by_ids``: a change needs ids."""

    fields: Fields
    next_id: int
    config: TableConfig
    by_ids: bool


@dataclass(frozen=True, slots=True)
class Altered:
    """A schema after changes; ``by_ids`` says whether old files need a history to be read."""

    columns: Identified
    by_ids: bool


def altered(
    current: Identified,
    max_column_id: int,
    changes: Sequence[ColumnChange],
    config: TableConfig,
) -> Altered:
    """``current`` after the changes, in their order; ids above ``max_column_id`` are free.

    ``SchemaConflict`` (column, ours, theirs, rule) for a change that is refused.
    """
    meta = [f for f in current["fields"] if f["name"] in HIDDEN_COLUMNS]
    own = [copy.deepcopy(f) for f in current["fields"] if f["name"] not in HIDDEN_COLUMNS]
    columns = _Columns(own, max_column_id + 1, config, by_ids=False)
    for change in changes:
        _APPLY.get(change["change"], _refused)(columns, change)
    # Names identify columns in any order, so this change needs no history.
    shown = partitions_last(columns.fields, config.partition_fields)
    return Altered({**current, "fields": [*meta, *shown]}, columns.by_ids)


def _added(columns: _Columns, change: ColumnChange) -> None:
    path, kind = change["column"].split("."), change["type"]
    siblings = _struct_at(columns.fields, path[:-1])
    if siblings is None:
        raise _refusal(change, None, kind, "there is no struct to add it to")
    if not change["nullable"]:
        raise _refusal(change, None, kind, "existing rows have no value for it")
    field = {"name": path[-1], "type": kind, "nullable": True, "metadata": {}}
    _check_name(siblings, change, path[-1], None, kind)
    check_names([field])
    stored = avro_to_spark(spark_to_avro({"type": "struct", "fields": [field]}, "t"))
    own = columns.next_id
    numbered = with_new_ids(stored["fields"][0]["type"], own + 1)
    columns.next_id = max((own, *all_ids(numbered))) + 1
    siblings += [{**field, "type": numbered, "metadata": {ID: own}}]
    columns.by_ids |= len(path) > 1
    if change.get("position") is not None:
        _moved(columns, change)


def _retyped(columns: _Columns, change: ColumnChange) -> None:
    place, kind = _known(columns, change), change["type"]
    old = place.type
    try:
        wider = merged_type(change["column"], old, kind)
    except SchemaConflict:
        wider = None
    if wider != kind:
        raise _refusal(change, old, kind, "a type may only widen, such as int to bigint")
    keys = (*columns.config.record_key_fields, *columns.config.partition_fields)
    if _serves(change, keys):
        raise _refusal(change, old, kind, "keys and partition paths contain its values as text")
    if place.key == "keyType":
        raise _refusal(change, old, kind, "keys of a map keep their type")
    place.holder[place.key] = kind
    columns.by_ids |= "." in change["column"]


def _loosened(columns: _Columns, change: ColumnChange) -> None:
    place = _known(columns, change)
    if _serves(change, columns.config.record_key_fields):
        raise _refusal(change, place.type, place.type, "a key column is never null")
    nullable = {"elementType": "containsNull", "valueType": "valueContainsNull"}
    if place.key == "keyType":
        raise _refusal(change, place.type, place.type, "keys of a map are never null")
    place.holder[nullable.get(place.key, "nullable")] = True
    columns.by_ids |= "." in change["column"]


def _renamed(columns: _Columns, change: ColumnChange) -> None:
    place = _named_place(columns, change)
    _refuse_if_it_serves(columns, change, place.type)
    assert place.siblings is not None
    _check_name(place.siblings, change, change["to"], place.holder, place.type)
    check_names([{"name": change["to"], "type": "string"}])
    place.holder["name"] = change["to"]
    columns.by_ids = True


def _dropped(columns: _Columns, change: ColumnChange) -> None:
    place = _named_place(columns, change)
    _refuse_if_it_serves(columns, change, place.type)
    assert place.siblings is not None
    if len(place.siblings) == 1:
        raise _refusal(change, place.type, None, "a table or struct needs at least one column")
    place.siblings.remove(place.holder)
    columns.by_ids = True


def _moved(columns: _Columns, change: ColumnChange) -> None:
    place = _named_place(columns, change)
    siblings, before = place.siblings, change["position"]
    assert siblings is not None
    if _serves(change, columns.config.partition_fields):
        raise _refusal(change, place.type, place.type, "partition columns stay after the others")
    others = [field for field in siblings if field is not place.holder]
    at = 0
    if before:
        found = [n for n, field in enumerate(others) if field["name"].lower() == before.lower()]
        if not found:
            rule = f"there is no column '{before}' at the same level"
            raise _refusal(change, place.type, place.type, rule)
        at = found[0] + 1
    siblings[:] = [*others[:at], place.holder, *others[at:]]
    columns.by_ids = True


def _refused(columns: _Columns, change: ColumnChange) -> None:
    place = _find(columns.fields, change["column"].split("."))
    kind = place.type if place else None
    raise _refusal(change, kind, kind, f"the change '{change['change']}' is not supported yet")


_APPLY: dict[str, Callable[[_Columns, ColumnChange], None]] = {
    "add": _added,
    "type": _retyped,
    "nullable": _loosened,
    "rename": _renamed,
    "drop": _dropped,
    "position": _moved,
}


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a type: ``holder[key]``; for a field (the holder) also its siblings."""

    holder: dict[str, Any]
    key: str
    siblings: Fields | None = None

    @property
    def type(self) -> Any:
        return self.holder[self.key]


def _find(fields: Fields, path: Sequence[str]) -> _Place | None:
    field = next((f for f in fields if f["name"].lower() == path[0].lower()), None)
    if field is None:
        return None
    return _inside(_Place(field, "type", fields), path[1:])


def _inside(place: _Place, path: Sequence[str]) -> _Place | None:
    if not path:
        return place
    kind, part = place.type, f"{path[0].lower()}Type"
    if isinstance(kind, str):
        return None
    if kind["type"] == "struct":
        return _find(kind["fields"], path)
    return _inside(_Place(kind, part), path[1:]) if part in kind else None


def _struct_at(fields: Fields, path: Sequence[str]) -> Fields | None:
    """The fields of the struct at a path (the table's at an empty path), or None."""
    if not path:
        return fields
    place = _find(fields, path)
    kind = place.type if place is not None else ""
    return None if isinstance(kind, str) else kind.get("fields")


def _known(columns: _Columns, change: ColumnChange) -> _Place:
    place = _find(columns.fields, change["column"].split("."))
    if place is None:
        raise _refusal(change, None, change.get("type"), "the table has no such column")
    return place


def _named_place(columns: _Columns, change: ColumnChange) -> _Place:
    place = _known(columns, change)
    if place.siblings is None:
        raise _refusal(change, place.type, None, "the parts of lists and maps have fixed names")
    return place


def _check_name(siblings: Fields, change: ColumnChange, name: str, mine: Any, kind: Any) -> None:
    if any(f["name"].lower() == name.lower() for f in siblings if f is not mine):
        raise _refusal(change, None, kind, f"there is already a column named '{name}'")
    if name in HIDDEN_COLUMNS:
        raise _refusal(change, None, kind, f"'{name}' is one of Hudi's own columns")


def _serves(change: ColumnChange, columns: Sequence[str]) -> bool:
    """Whether one of ``columns`` is the changed column, or lies inside it."""
    own = change["column"].lower()
    return any(f"{name.lower()}.".startswith(f"{own}.") for name in columns)


def _refuse_if_it_serves(columns: _Columns, change: ColumnChange, kind: Any) -> None:
    config = columns.config
    roles = {
        "the record key": config.record_key_fields,
        "the partition path": config.partition_fields,
        "the ordering of rows": config.ordering_fields,
    }
    for role, fields in roles.items():
        if _serves(change, fields):
            raise _refusal(change, kind, None, f"{role} uses it by its name")


def _refusal(change: ColumnChange, old: Any, new: Any, rule: str) -> SchemaConflict:
    old, new = (kind if kind is None else without_ids(kind) for kind in (old, new))
    before = f" from {type_text(old)}" if old is not None else ""
    after = f" to {type_text(new)}" if new is not None and new != old else ""
    if change["change"] == "rename":
        after = f" to be named '{change['to']}'"
    return SchemaConflict(
        f"Column '{change['column']}' cannot be altered{before}{after}: {rule}. The table was not "
        "changed.",
        column=change["column"],
        ours=new,
        theirs=old,
        rule=rule,
    )
