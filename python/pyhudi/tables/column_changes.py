"""Applies the column changes of ALTER TABLE to a schema whose columns have ids.

A change is allowed if old files stay readable: types widen or are cast, and new columns are null
in old rows.
Names and positions may change, since files are read by ids. Columns of keys, partitions, the
ordering and the mark of deletes keep their names.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyhudi.errors import SchemaConflict
from pyhudi.format.column_ids import Identified, without_ids
from pyhudi.format.column_tree import ColumnTree, Part, Path
from pyhudi.format.schemas import HIDDEN_COLUMNS, type_text
from pyhudi.format.spark_schema import Column, SparkSchema, SparkType
from pyhudi.format.table_config import TableConfig
from pyhudi.format.widening import casts, merged_type
from pyhudi.tables.columns import DELETES, check_names, roles_of

# ---- what ALTER TABLE asks for


@dataclass(frozen=True, slots=True)
class First:
    """Before all columns beside it."""


@dataclass(frozen=True, slots=True)
class After:
    """Behind the one of this name."""

    name: str


Position = First | After


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Another column, the last one where no position is given; ``type`` as Spark's JSON has it."""

    column: Path
    type: SparkType
    nullable: bool
    position: Position | None


@dataclass(frozen=True, slots=True)
class RetypeColumn:
    """Another type, as Spark's JSON has it."""

    column: Path
    type: SparkType


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Another name beside the same columns."""

    column: Path
    to: str


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Another place among the same columns."""

    column: Path
    position: Position


@dataclass(frozen=True, slots=True)
class LoosenColumn:
    """DROP NOT NULL."""

    column: Path


@dataclass(frozen=True, slots=True)
class DropColumn:
    """The column goes; older instants keep it."""

    column: Path


class Unserved(Enum):
    """What of a column cannot be changed."""

    NOT_NULL = "not null"
    DEFAULT = "default"


_UNSERVED = {
    Unserved.NOT_NULL: "rows may hold null in it, so it cannot become NOT NULL",
    Unserved.DEFAULT: "only CREATE TABLE gives a column its default value",
}


@dataclass(frozen=True, slots=True)
class RefusedChange:
    """A change that is refused for every column."""

    column: Path
    of: Unserved


ColumnChange = (
    AddColumn | RetypeColumn | RenameColumn | MoveColumn | LoosenColumn | DropColumn | RefusedChange
)


def unseen_by_name(changes: Iterable[ColumnChange]) -> list[str]:
    """The columns, dotted, that readers which know columns by name lose or take for others."""
    return [".".join(c.column) for c in changes if isinstance(c, RenameColumn | DropColumn)]


# ---- what becomes of the columns


@dataclass(slots=True)
class _Columns:
    """The columns while changes are applied; ``by_ids``: a change needs ids.

    ``gone`` are names in lower case that columns of older files have.
    """

    tree: ColumnTree
    config: TableConfig
    gone: Container[str]
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
    gone: Container[str] = (),
) -> Altered:
    """``current`` after the changes, in their order; ids above ``max_column_id`` are free.

    ``gone`` are names in lower case under which older files have columns that the table has not.
    ``SchemaConflict`` (column, ours, theirs, rule) for a change that is refused.
    """
    columns = _Columns(ColumnTree(current, max_column_id + 1), config, gone, by_ids=False)
    for change in changes:
        _apply(columns, change)
    # Names identify columns in any order, so this change needs no history.
    return Altered(columns.tree.columns(last=config.partition_fields), columns.by_ids)


def _apply(columns: _Columns, change: ColumnChange) -> None:
    match change:
        case AddColumn():
            _added(columns, change)
        case RetypeColumn():
            _retyped(columns, change)
        case RenameColumn():
            _renamed(columns, change)
        case MoveColumn(_, position):
            _moved(columns, change, position)
        case LoosenColumn():
            _loosened(columns, change)
        case DropColumn():
            _dropped(columns, change)
        case RefusedChange(column, of):
            part = columns.tree.part(column)
            kind = part.type if part else None
            raise _refusal(change, kind, kind, _UNSERVED[of])


def _added(columns: _Columns, change: AddColumn) -> None:
    *inside, name = change.column
    above, kind = tuple(inside), change.type
    if not columns.tree.has_struct(above):
        raise _refusal(change, None, kind, "there is no struct to add it to")
    if not change.nullable:
        raise _refusal(change, None, kind, "existing rows have no value for it")
    _check_name(change, name, columns.tree.part(change.column) is not None, kind)
    added = SparkSchema((Column(name, kind),))
    check_names(added)
    (stored,) = added.as_stored("t").columns
    columns.tree.add(above, stored)
    columns.by_ids |= bool(above) or name.lower() in columns.gone
    if change.position is not None:
        _moved(columns, change, change.position)


def _retyped(columns: _Columns, change: RetypeColumn) -> None:
    part, kind = _known(columns, change), change.type
    old = part.type
    try:
        wider = merged_type(_shown(change.column), old, kind)
    except SchemaConflict:
        wider = None
    cast = wider != kind and casts(old, kind) and len(change.column) == 1
    if wider != kind and not cast:
        raise _refusal(change, old, kind, "a type may only widen, such as int to bigint")
    if cast and _serves(change, columns.config.ordering_fields):
        raise _refusal(change, old, kind, "the ordering of rows compares its values")
    keys = (*columns.config.record_key_fields, *columns.config.partition_fields)
    if _serves(change, keys):
        raise _refusal(change, old, kind, "keys and partition paths contain its values as text")
    if _serves(change, roles_of(columns.config)[DELETES]):
        raise _refusal(change, old, kind, "the mark of deletes is compared as text")
    if part.is_map_key:
        raise _refusal(change, old, kind, "keys of a map keep their type")
    part.retype(kind)
    columns.by_ids |= len(change.column) > 1 or cast


def _loosened(columns: _Columns, change: LoosenColumn) -> None:
    part = _known(columns, change)
    if _serves(change, columns.config.record_key_fields):
        raise _refusal(change, part.type, part.type, "a key column is never null")
    if part.is_map_key:
        raise _refusal(change, part.type, part.type, "keys of a map are never null")
    part.loosen()
    columns.by_ids |= len(change.column) > 1


def _renamed(columns: _Columns, change: RenameColumn) -> None:
    part = _named_part(columns, change)
    _refuse_if_it_serves(columns, change, part.type)
    name = change.to
    _check_name(change, name, part.has_beside(name), part.type)
    check_names(SparkSchema((Column(name, "string"),)))
    part.rename(name)
    columns.by_ids = True


def _dropped(columns: _Columns, change: DropColumn) -> None:
    part = _named_part(columns, change)
    _refuse_if_it_serves(columns, change, part.type)
    if part.is_alone:
        raise _refusal(change, part.type, None, "a table or struct needs at least one column")
    part.drop()
    columns.by_ids = True


def _moved(columns: _Columns, change: AddColumn | MoveColumn, position: Position) -> None:
    part = _named_part(columns, change)
    before = position.name if isinstance(position, After) else ""
    if _serves(change, columns.config.partition_fields):
        raise _refusal(change, part.type, part.type, "partition columns stay after the others")
    if before and not part.has_beside(before):
        rule = f"there is no column '{before}' at the same level"
        raise _refusal(change, part.type, part.type, rule)
    part.move(before)
    columns.by_ids = True


def _known(columns: _Columns, change: ColumnChange) -> Part:
    part = columns.tree.part(change.column)
    if part is None:
        wanted = change.type if isinstance(change, RetypeColumn) else None
        raise _refusal(change, None, wanted, "the table has no such column")
    return part


def _named_part(columns: _Columns, change: ColumnChange) -> Part:
    part = _known(columns, change)
    if not part.has_name:
        raise _refusal(change, part.type, None, "the parts of lists and maps have fixed names")
    return part


def _check_name(change: ColumnChange, name: str, is_taken: bool, kind: SparkType) -> None:
    if is_taken:
        raise _refusal(change, None, kind, f"there is already a column named '{name}'")
    if name.lower() in HIDDEN_COLUMNS:
        raise _refusal(change, None, kind, f"'{name}' is one of Hudi's own columns")


def _serves(change: ColumnChange, columns: Sequence[str]) -> bool:
    """Whether one of ``columns`` is the column of a change, or inside it."""
    own = _shown(change.column).lower()
    return any(f"{name.lower()}.".startswith(f"{own}.") for name in columns)


def _refuse_if_it_serves(columns: _Columns, change: ColumnChange, kind: Any) -> None:
    for role, fields in roles_of(columns.config).items():
        if _serves(change, fields):
            raise _refusal(change, kind, None, f"{role} uses it by its name")


def _shown(column: Path) -> str:
    return ".".join(column)


def _refusal(change: ColumnChange, old: Any, new: Any, rule: str) -> SchemaConflict:
    column = _shown(change.column)
    old, new = (kind if kind is None else without_ids(kind) for kind in (old, new))
    before = f" from {type_text(old)}" if old is not None else ""
    after = f" to {type_text(new)}" if new is not None and new != old else ""
    refused = f"'{column}' cannot be altered{before}{after}"
    if isinstance(change, AddColumn | DropColumn):
        kind = new if old is None else old
        of = f" ({type_text(kind)})" if kind is not None else ""
        done = "added" if isinstance(change, AddColumn) else "dropped"
        refused = f"'{column}'{of} cannot be {done}"
    elif isinstance(change, RenameColumn):
        refused = f"'{column}' cannot be altered{before} to be named '{change.to}'"
    return SchemaConflict(
        f"Column {refused}: {rule}. The table stays as it was.",
        column=column,
        ours=new,
        theirs=old,
        rule=rule,
    )
