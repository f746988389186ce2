"""What SQL statements make of a Hudi table, in plain Python: the model of the property tests.

A model is a value: each statement makes another one, or raises ``Refused``. Values are Python's own
(float for FLOAT and DOUBLE, Decimal, date), rows are tuples in the order of the columns. The rules
are those that ``docs/guide.md`` states, and Spark's own for comparisons and three-valued logic.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Row = tuple[Any, ...]
#: the values of one row by (alias of its table, column); the alias is "" where there is but one
Scope = Mapping[tuple[str, str], Any]
#: the new value of each column of a target row by its position, the row itself deleted where None
Changes = Mapping[int, Row | None]

#: a type -> those that it may be widened to
WIDER = {
    "int": ("bigint", "double"),
    "bigint": (),
    "float": ("double",),
    "double": (),
    "decimal(9,2)": ("decimal(12,2)", "decimal(12,4)"),
    "decimal(12,2)": ("decimal(14,4)",),
    "decimal(12,4)": (),
    "decimal(14,4)": (),
    "string": (),
    "boolean": (),
    "date": (),
}


class Refused(Exception):
    """The statement fails, with these words in its message, and changes nothing."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``kind`` is its type as SQL writes it."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Definition:
    """What a table is from its creation on: the names of the columns that have a part in it.

    ``upserts`` tells whether INSERT looks keys up; else it adds rows, whatever their keys.
    """

    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    ordering: str | None
    upserts: bool
    properties: tuple[tuple[str, str], ...] = ()

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

    def kind(self, name: str) -> str:
        return self.columns[self.at(name)].kind

    def scope(self, row: Row, alias: str = "") -> Scope:
        return {(alias, name): value for name, value in zip(self.names, row, strict=True)}

    def key(self, row: Row) -> Row:
        """The values of the record key."""
        return tuple(row[self.at(name)] for name in self.definition.keys)

    def path(self, row: Row) -> Row:
        """The values that choose the partition."""
        return tuple(row[self.at(name)] for name in self.definition.partitions)

    # ---- rows

    def inserted(self, batch: Sequence[Row]) -> Model:
        """INSERT INTO."""
        self._check_keys(batch)
        if not self.definition.upserts:
            return replace(self, rows=(*self.rows, *batch))
        rows = list(self.rows)
        places = {(self.path(row), self.key(row)): at for at, row in enumerate(rows)}
        for row in batch:
            place = (self.path(row), self.key(row))
            if place not in places:
                places[place] = len(rows)
                rows.append(row)
            elif self._wins(row, rows[places[place]]):
                rows[places[place]] = row
        return replace(self, rows=tuple(rows))

    def overwritten(self, batch: Sequence[Row], paths: Iterable[Row] | None) -> Model:
        """INSERT OVERWRITE of the partitions ``paths``, of the whole table where None."""
        self._check_keys(batch)
        swept = None if paths is None else set(paths)
        kept = () if swept is None else (r for r in self.rows if self.path(r) not in swept)
        return replace(self, rows=(*kept, *batch))

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

    def _wins(self, new: Row, old: Row) -> bool:
        """Whether a row replaces the one of its key: the larger ordering value, the later one."""
        ordering = self.definition.ordering
        if ordering is None:
            return True
        at = self.at(ordering)
        if new[at] is None or old[at] is None:
            return old[at] is None
        return order(new[at], old[at]) >= 0

    def _check_keys(self, rows: Iterable[Row]) -> None:
        # Of a key of several columns one at least has a value, as in Hudi.
        if self.definition.keys and any(set(self.key(row)) == {None} for row in rows):
            raise Refused("[INVALID_RECORD]")

    def _check_changes(self, changes: Changes, inserts: Sequence[Row]) -> None:
        self._check_keys(inserts)
        updates = [(self.rows[at], new) for at, new in changes.items() if new is not None]
        if any(self.key(old) != self.key(new) for old, new in updates):
            raise Refused("would change record keys")
        arriving = [*inserts, *(new for old, new in updates if self.path(old) != self.path(new))]
        staying = [new for old, new in updates if self.path(old) == self.path(new)]
        places = [(self.path(row), self.key(row)) for row in (*arriving, *staying)]
        if len(set(places)) < len(places):
            raise Refused("more than one row with the key")
        held = {(self.path(row), self.key(row)) for row in self.rows}
        if held & set(places[: len(arriving)]):
            raise Refused("keys that the table has already")

    # ---- columns

    def added(self, column: Column, after: str | None) -> Model:
        """ADD COLUMN at the end, at the beginning ("") or after another."""
        if column.name in self.names:
            raise Refused("already exists")
        columns = (*self.columns, column)
        grown = replace(self, columns=columns, rows=tuple((*row, None) for row in self.rows))
        return grown if after is None else grown.moved(column.name, after)

    def renamed(self, name: str, to: str) -> Model:
        self._check_fixed(name)
        if to in self.names:
            raise Refused("already exists")
        columns = (Column(to, c.kind) if c.name == name else c for c in self.columns)
        return replace(self, columns=tuple(columns), by_ids=True)

    def dropped(self, name: str) -> Model:
        self._check_fixed(name)
        at = self.at(name)
        rows = tuple((*row[:at], *row[at + 1 :]) for row in self.rows)
        columns = (*self.columns[:at], *self.columns[at + 1 :])
        return replace(self, columns=columns, rows=rows, by_ids=True)

    def moved(self, name: str, after: str) -> Model:
        """ALTER COLUMN AFTER another, FIRST where that is ""."""
        others = [at for at, each in enumerate(self.names) if each != name]
        place = 0 if not after else others.index(self.at(after)) + 1
        order = (*others[:place], self.at(name), *others[place:])
        rows = tuple(tuple(row[at] for at in order) for row in self.rows)
        columns = tuple(self.columns[at] for at in order)
        return replace(self, columns=columns, rows=rows, by_ids=True)

    def widened(self, name: str, kind: str) -> Model:
        """ALTER COLUMN TYPE."""
        if name in (*self.definition.keys, *self.definition.partitions):
            raise Refused("keys and partitions are texts made of this column")
        at, old = self.at(name), self.kind(name)
        if kind not in (old, *WIDER[old]):
            raise Refused("")
        cast = float if kind == "double" else converted(kind)
        columns = tuple(replace(c, kind=kind) if c.name == name else c for c in self.columns)
        rows = (
            (*row[:at], None if row[at] is None else cast(row[at]), *row[at + 1 :])
            for row in self.rows
        )
        return replace(self, columns=columns, rows=tuple(rows))

    def _check_fixed(self, name: str) -> None:
        if name in self.definition.fixed:
            raise Refused("is made of it")


def converted(kind: str) -> Callable[[Any], Any]:
    """What widening to ``kind`` does to a value: decimals get its scale."""
    if not kind.startswith("decimal"):
        return lambda value: value
    scale = decimal.Decimal(1).scaleb(-int(kind.rstrip(")").split(",")[1]))
    return lambda value: value.quantize(scale)


# ---- values and expressions


def order(a: Any, b: Any) -> int:
    """Spark's order of two values: NaN is equal to itself and above all others, -0.0 is 0.0."""
    odd, other = (isinstance(each, float) and math.isnan(each) for each in (a, b))
    if odd or other:
        return int(odd) - int(other)
    return int(a > b) - int(a < b)


def literal(value: Any, kind: str) -> str:
    """A value as SQL writes it."""
    if value is None:
        return f"cast(null as {kind})"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.date):
        return f"date'{value.isoformat()}'"
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'" if kind == "string" else f"cast('{text}' as {kind})"


def values_clause(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """``values (...), (...)``."""
    texts = (
        ", ".join(literal(v, c.kind) for v, c in zip(row, columns, strict=True)) for row in rows
    )
    return "values " + ", ".join(f"({text})" for text in texts)


@dataclass(frozen=True, slots=True)
class Expression:
    """SQL text and what it gives for a row: a predicate gives True, False or None."""

    sql: str
    of: Callable[[Scope], Any]


def quoted(name: str) -> str:
    """A column's name as SQL takes it."""
    return name if name.isascii() else f"`{name}`"


def column(name: str, alias: str = "") -> Expression:
    sql = f"{alias}.{quoted(name)}" if alias else quoted(name)
    return Expression(sql, lambda scope: scope[alias, name])


def constant(value: Any, kind: str) -> Expression:
    return Expression(literal(value, kind), lambda scope: value)


_COMPARES: dict[str, Callable[[int], bool]] = {
    "=": lambda sign: sign == 0,
    "<>": lambda sign: sign != 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
}
OPERATORS = (*_COMPARES, "<=>")


def compare(left: Expression, operator: str, right: Expression) -> Expression:
    def of(scope: Scope) -> bool | None:
        a, b = left.of(scope), right.of(scope)
        if operator == "<=>":
            return a is b if a is None or b is None else order(a, b) == 0
        return None if a is None or b is None else _COMPARES[operator](order(a, b))

    return Expression(f"{left.sql} {operator} {right.sql}", of)


def is_null(of: Expression) -> Expression:
    return Expression(f"{of.sql} is null", lambda scope: of.of(scope) is None)


def negated(of: Expression) -> Expression:
    def negation(scope: Scope) -> bool | None:
        found = of.of(scope)
        return None if found is None else not found

    return Expression(f"not ({of.sql})", negation)


def both(parts: Sequence[Expression]) -> Expression:
    def of(scope: Scope) -> bool | None:
        found = [part.of(scope) for part in parts]
        return False if False in found else None if None in found else True

    return Expression(" and ".join(f"({part.sql})" for part in parts), of)


def either(parts: Sequence[Expression]) -> Expression:
    one = negated(both([negated(part) for part in parts]))
    return Expression(" or ".join(f"({part.sql})" for part in parts), one.of)


def within(of: Expression, values: Sequence[Any], kind: str) -> Expression:
    found = either([compare(of, "=", constant(value, kind)) for value in values])
    texts = ", ".join(literal(value, kind) for value in values)
    return Expression(f"{of.sql} in ({texts})", found.of)


def first_not_null(a: Expression, b: Expression) -> Expression:
    def of(scope: Scope) -> Any:
        found = a.of(scope)
        return b.of(scope) if found is None else found

    return Expression(f"coalesce({a.sql}, {b.sql})", of)


def chosen(test: Expression, a: Expression, b: Expression) -> Expression:
    """``if(test, a, b)``."""
    return Expression(
        f"if({test.sql}, {a.sql}, {b.sql})",
        lambda scope: a.of(scope) if test.of(scope) else b.of(scope),
    )


def more(of: Expression, kind: str) -> Expression:
    """A text with a letter more, a number that is one larger."""
    add: Callable[[Any], Any] = (lambda v: v + "+") if kind == "string" else (lambda v: v + 1)
    sql = f"concat({of.sql}, '+')" if kind == "string" else f"cast({of.sql} + 1 as {kind})"
    return Expression(sql, lambda scope: None if (v := of.of(scope)) is None else add(v))


ALWAYS = Expression("true", lambda scope: True)

# ---- statements


@dataclass(frozen=True, slots=True)
class Clause:
    """WHEN ... THEN of a MERGE: ``values`` by column, None for a deletion."""

    kind: str
    test: Expression
    values: Mapping[str, Expression] | None

    def row(self, model: Model, old: Row | None, scope: Scope) -> Row | None:
        """The new row, from the old one where there is one."""
        if self.values is None:
            return None
        kept = old or (None,) * len(model.columns)
        return tuple(
            self.values[name].of(scope) if name in self.values else value
            for name, value in zip(model.names, kept, strict=True)
        )


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
