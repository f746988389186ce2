"""What SQL statements make of a Hudi table, in plain Python: the model of the property tests.

A model is a value: each statement makes another one, or raises ``Refused``. Rows are tuples in the
order of the columns; a path is the name of a column, or of a field with those of the structs around
it (``a.x``). The rules are those that ``docs/guide.md`` states, and Spark's own.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests import sql_columns
from tests.sql_columns import Edit, Refused, inside
from tests.sql_expressions import ALWAYS, Expression, Scope
from tests.sql_values import WIDER, Column, Row, fields, is_simple, is_struct

#: the new value of each column of a target row by its position, the row itself deleted where None
Changes = Mapping[int, Row | None]
#: a place of an ordering value among others
Rank = tuple[float, Any, int]


@dataclass(frozen=True, slots=True)
class Definition:
    """What a table is from its creation on: the names of the columns that have a part in it.

    ``upserts`` tells whether INSERT looks keys up; else it adds rows, whatever their keys. Under a
    ``unique`` key, a global index's, a row is found in any partition; else a key is a partition's
    own. ``latest``: of two rows with one key the one that came later stays, whatever its order.
    ``fills``: null in a row that is written stands for the value that the row before it has.
    """

    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    ordering: str | None
    upserts: bool
    properties: tuple[tuple[str, str], ...] = ()
    unique: bool = False
    latest: bool = False
    fills: bool = False

    @property
    def decides(self) -> str | None:
        """The column whose larger value wins."""
        return None if self.latest else self.ordering

    @property
    def fixed(self) -> tuple[str, ...]:
        """Columns that keep their names."""
        return (*self.keys, *self.partitions, *((self.ordering,) if self.ordering else ()))


@dataclass(frozen=True, slots=True)
class Model:
    """A table at one time. ``by_ids`` once only Hudi's schema history tells its columns apart."""

    definition: Definition
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    by_ids: bool = field(default=False, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def at(self, name: str) -> int:
        """The position of a column."""
        return self.names.index(name)

    def kind(self, path: str) -> str:
        """The type of a column or field."""
        return dict(_all_paths(self.columns))[path]

    @property
    def paths(self) -> dict[str, str]:
        """All columns and all fields in them, with their types."""
        return dict(_all_paths(self.columns))

    @property
    def simple(self) -> tuple[str, ...]:
        """The paths of what can be compared."""
        return tuple(path for path, kind in self.paths.items() if is_simple(kind))

    def scope(self, row: Row, alias: str = "") -> Scope:
        return {(alias, name): value for name, value in zip(self.names, row, strict=True)}

    def key(self, row: Row) -> Row:
        """The values of the record key."""
        return tuple(row[self.at(name)] for name in self.definition.keys)

    def path(self, row: Row) -> Row:
        """The values that choose the partition."""
        return tuple(row[self.at(name)] for name in self.definition.partitions)

    def place(self, row: Row) -> tuple[Row, Row]:
        """What tells which row of the table another one is."""
        return () if self.definition.unique else self.path(row), self.key(row)

    # ---- rows

    def inserted(self, batch: Sequence[Row]) -> Model:
        """INSERT INTO."""
        self._check_keys(batch)
        if not self.definition.upserts:
            return replace(self, rows=(*self.rows, *batch))
        return self.upserted(batch)

    def upserted(self, batch: Sequence[Row]) -> Model:
        """The rows win or lose against those of their keys; without keys they are added."""
        self._check_keys(batch)
        if not self.definition.keys:
            return replace(self, rows=(*self.rows, *batch))
        rows = list(self.rows)
        places = {self.place(row): at for at, row in enumerate(rows)}
        for row in batch:
            place = self.place(row)
            if place not in places:
                places[place] = len(rows)
                rows.append(row)
                continue
            old = rows[places[place]]
            if self._wins(row, old):
                rows[places[place]] = self._filled(row, old)
        return replace(self, rows=tuple(rows))

    def overwritten(self, batch: Sequence[Row], paths: Iterable[Row] | None) -> Model:
        """INSERT OVERWRITE of the partitions ``paths``, of the whole table where None."""
        self._check_keys(batch)
        swept = None if paths is None else set(paths)
        kept = () if swept is None else (r for r in self.rows if self.path(r) not in swept)
        return replace(self, rows=(*kept, *batch))

    def without(self, places: Container[tuple[Row, Row]]) -> Model:
        """The table after the operation delete of the keys at ``places``."""
        gone = [at for at, row in enumerate(self.rows) if self.place(row) in places]
        return self.changed(dict.fromkeys(gone))

    def changed(self, changes: Changes, inserts: Sequence[Row] = ()) -> Model:
        """UPDATE, DELETE and MERGE: rows by position with their new values, and new rows."""
        if self.definition.keys:
            self._check_changes(changes, inserts)
        rows: list[Row] = []
        for at, old in enumerate(self.rows):
            new = changes.get(at, old)
            if new is None:
                continue
            stays = self.path(new) == self.path(old)
            rows.append(new if not stays or self._wins(new, old) else old)
        return replace(self, rows=(*rows, *inserts))

    def rank(self, row: Row) -> Rank:
        """The row's place by event time: null is the smallest, of an int it is 0."""
        assert self.definition.ordering is not None
        at = self.at(self.definition.ordering)
        value = row[at]
        if value is None:
            return (1, 0, 0) if self.columns[at].kind == "int" else (0, 0, 0)
        if not isinstance(value, float):
            return 1, value, 0
        if math.isnan(value):
            return 2, 0, 0
        return 1, value, int(math.copysign(1, value)) if value == 0 else 0

    def _wins(self, new: Row, old: Row) -> bool:
        """Whether a row replaces the one of its key: the larger ordering value, the later one."""
        return self.definition.decides is None or self.rank(new) >= self.rank(old)

    def _filled(self, row: Row, old: Row) -> Row:
        if not self.definition.fills:
            return row
        return tuple(b if a is None else a for a, b in zip(row, old, strict=True))

    def _check_keys(self, rows: Iterable[Row]) -> None:
        # Of a key of several columns one at least has a value, as in Hudi.
        if self.definition.keys and any(set(self.key(row)) == {None} for row in rows):
            raise Refused("[INVALID_RECORD]")

    def _check_changes(self, changes: Changes, inserts: Sequence[Row]) -> None:
        self._check_keys(inserts)
        updates = [(self.rows[at], new) for at, new in changes.items() if new is not None]
        leaving = {at for at, new in changes.items() if self._leaves(self.rows[at], new)}
        if any(self.key(old) != self.key(new) for old, new in updates):
            raise Refused("would change record keys")
        arriving = [*inserts, *(new for old, new in updates if self.path(old) != self.path(new))]
        staying = [new for old, new in updates if self.path(old) == self.path(new)]
        places = [self.place(row) for row in (*arriving, *staying)]
        if len(set(places)) < len(places):
            raise Refused("more than one row with the key")
        # A key that leaves its partition may arrive in another one by the same statement.
        left = leaving if self.definition.unique else ()
        held = {self.place(row) for at, row in enumerate(self.rows) if at not in left}
        if held & set(places[: len(arriving)]):
            raise Refused("keys that the table has already")

    def _leaves(self, old: Row, new: Row | None) -> bool:
        return new is None or self.path(new) != self.path(old)

    # ---- columns

    def redefined(self, columns: Sequence[Column], batch: Sequence[Row]) -> Model:
        """CREATE OR REPLACE TABLE: the rows and the columns are those of the definition."""
        new = replace(self, columns=tuple(columns), by_ids=True)
        return new.overwritten(batch, None)

    def added(self, path: str, kind: str, after: str | None) -> Model:
        """ADD COLUMN at the end, at the beginning ("") or after another."""
        *structs, name = path.split(".")
        edit = sql_columns.added(Column(name, kind), after)
        return self._edited(structs, edit, bool(structs) or after is not None)

    def renamed(self, path: str, to: str) -> Model:
        """RENAME COLUMN: ``to`` is the last name alone."""
        *structs, name = path.split(".")
        renamed = self._edited(structs, sql_columns.renamed(name, to), True)
        # Spark looks first whether the new name is taken.
        self._check_fixed(path)
        return renamed

    def dropped(self, path: str) -> Model:
        self._check_fixed(path)
        *structs, name = path.split(".")
        return self._edited(structs, sql_columns.dropped(name), True)

    def moved(self, path: str, after: str) -> Model:
        """ALTER COLUMN AFTER another, FIRST where that is ""."""
        if path in self.definition.partitions:
            raise Refused("partition columns stay after the others")
        *structs, name = path.split(".")
        return self._edited(structs, sql_columns.moved(name, after), True)

    def widened(self, path: str, kind: str) -> Model:
        """ALTER COLUMN TYPE; Spark itself refuses what is no widening, in words of its own."""
        texts = (*self.definition.keys, *self.definition.partitions)
        if path in texts and kind in WIDER[self.kind(path)]:
            raise Refused("keys and partition paths contain its values")
        *structs, name = path.split(".")
        return self._edited(structs, sql_columns.widened(name, kind), bool(structs))

    def _edited(self, structs: Sequence[str], edit: Edit, by_ids: bool) -> Model:
        columns, change = inside(structs, edit)(self.columns)
        last = self.definition.partitions
        order = sorted(range(len(columns)), key=lambda at: columns[at].name in last)
        rows = tuple(tuple(change(row)[at] for at in order) for row in self.rows)
        columns = tuple(columns[at] for at in order)
        return replace(self, columns=columns, rows=rows, by_ids=self.by_ids or by_ids)

    def _check_fixed(self, name: str) -> None:
        if name in self.definition.fixed:
            raise Refused("uses it")


def _all_paths(columns: Sequence[Column]) -> Iterable[tuple[str, str]]:
    for each in columns:
        yield each.name, each.kind
        if is_struct(each.kind):
            inner = _all_paths(fields(each.kind))
            yield from ((f"{each.name}.{path}", kind) for path, kind in inner)


# ---- statements


@dataclass(frozen=True, slots=True)
class Clause:
    """WHEN ... THEN of a MERGE: ``values`` by path, None for a deletion."""

    kind: str
    test: Expression
    values: Mapping[str, Expression] | None

    def row(self, model: Model, old: Row | None, scope: Scope) -> Row | None:
        """The new row, from the old one where there is one."""
        if self.values is None:
            return None
        kept = old or (None,) * len(model.columns)
        return _assigned(model.columns, kept, {p: v.of(scope) for p, v in self.values.items()})


def _assigned(columns: Sequence[Column], row: Row, values: Mapping[str, Any]) -> Row:
    """The row with new values; a field that is set makes the structs around it."""
    found = []
    for each, old in zip(columns, row, strict=True):
        inner = {
            path.partition(".")[2]: value
            for path, value in values.items()
            if path.startswith(f"{each.name}.")
        }
        if each.name in values:
            found.append(values[each.name])
        elif inner:
            parts = fields(each.kind)
            found.append(_assigned(parts, old or (None,) * len(parts), inner))
        else:
            found.append(old)
    return tuple(found)


MATCHED, NEW, LEFT = "matched", "not matched", "not matched by source"


def merged(
    model: Model, source: Sequence[Scope], on: Expression, clauses: Sequence[Clause]
) -> Model:
    """MERGE INTO; scopes have the alias t for the target and s for the source."""
    changes: dict[int, Row | None] = {}
    inserts: list[Row] = []
    of_kind = {kind: [c for c in clauses if c.kind == kind] for kind in (MATCHED, NEW, LEFT)}
    scopes = [model.scope(row, "t") for row in model.rows]
    pairs = [[s for s in source if on.of({**t, **s})] for t in scopes]
    matched = of_kind[MATCHED]
    harmless = len(matched) == 1 and matched[0].values is None and matched[0].test is ALWAYS
    if matched and not harmless and any(len(found) > 1 for found in pairs):
        raise Refused("MERGE_CARDINALITY_VIOLATION")
    for at, (t, found) in enumerate(zip(scopes, pairs, strict=True)):
        scope = {**t, **found[0]} if found else t
        clause = _first(of_kind[MATCHED if found else LEFT], scope)
        if clause is not None:
            changes[at] = clause.row(model, model.rows[at], scope)
    for s in source:
        clause = _first(of_kind[NEW], s) if not any(on.of({**t, **s}) for t in scopes) else None
        if clause is not None:
            row = clause.row(model, None, s)
            assert row is not None
            inserts.append(row)
    return model.changed(changes, inserts)


def _first(clauses: Sequence[Clause], scope: Scope) -> Clause | None:
    return next((clause for clause in clauses if clause.test.of(scope)), None)
