"""Random sequences of SQL statements on one Hudi table, each with the model of what it leaves.

A sequence is a pure function of its number, made without Spark: a statement is drawn for the model
as the ones before have left it. ``{t}`` stands for the table's name. The draws are a seed's and not
hypothesis's, which tries many near copies of one example: a sequence takes seconds to run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tests.sql_domains import (
    HIVE_STYLE,
    INDEXES,
    KEYS,
    NAMES,
    PARTITIONS,
    UPSERT,
    URL_ENCODED,
    VALUES,
)
from tests.sql_model import (
    ALWAYS,
    LEFT,
    MATCHED,
    NEW,
    OPERATORS,
    WIDER,
    Clause,
    Column,
    Definition,
    Expression,
    Model,
    Refused,
    Row,
    both,
    chosen,
    column,
    compare,
    constant,
    either,
    first_not_null,
    is_null,
    literal,
    merged,
    more,
    negated,
    order,
    quoted,
    values_clause,
    within,
)

T = TypeVar("T")
GROWING = ("int", "bigint", "decimal(9,2)", "decimal(12,2)", "double", "string")
STATEMENTS = 9


@dataclass(frozen=True, slots=True)
class Step:
    """One statement; ``refused`` are words of its error, None where it succeeds.

    ``after`` is the table afterwards. ``probe`` is a condition, for a query.
    """

    sql: str
    refused: str | None
    after: Model
    probe: Expression
    dynamic: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Story:
    """A table's creation, and what is done to it."""

    create: str
    start: Model
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        """The statements."""
        return "\n".join((self.create, *(f"{step.sql};" for step in self.steps)))


class Chance:
    """The choices of one sequence."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(number)
        #: whether columns are only added at the end and widened, which all readers follow
        self.by_names = self.one((True, False))

    def one(self, values: Sequence[T]) -> T:
        return self._random.choice(values)

    def some(self, values: Sequence[T], most: int, least: int = 1) -> list[T]:
        """Different ones, in any order."""
        return self._random.sample(values, self.number(least, min(most, len(values))))

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def once_in(self, times: int) -> bool:
        return self._random.randrange(times) == 0


def story(number: int) -> Story:
    """The sequence of this number: a table and ``STATEMENTS`` statements."""
    chance = Chance(number)
    start = model = _table(chance)
    steps = []
    for _ in range(STATEMENTS):
        step = _step(chance, model)
        steps.append(step)
        model = step.after
    return Story(_create(start), start, tuple(steps))


def _table(chance: Chance) -> Model:
    version = chance.one(("9", "8", "6"))
    keys = chance.one((("bigint",), ("string",), ("int",), ("bigint", "string"), ()))
    partitions = chance.one((("string",), (), ("string",), ("int",), ("date", "string")))
    columns = [Column(f"k{at}", kind) for at, kind in enumerate(keys)]
    columns += [Column(name, chance.one(tuple(WIDER))) for name in NAMES[: chance.number(1, 3)]]
    ordering = keys and chance.one(("bigint", "int", None, "double"))
    columns += [Column("ts", ordering)] if ordering else []
    columns += [Column(f"p{at}", kind) for at, kind in enumerate(partitions)]
    properties = [("hoodie.write.table.version", version)]
    upserts = bool(ordering)
    if keys:
        properties.append(("primaryKey", ",".join(f"k{at}" for at in range(len(keys)))))
        properties += chance.one(INDEXES)
    if ordering:
        properties.append(("preCombineField", "ts"))
    elif keys and chance.one((True, False)):
        upserts = True
        properties.append(UPSERT)
    if partitions:
        properties += chance.one(((), (HIVE_STYLE,), (URL_ENCODED,), (HIVE_STYLE, URL_ENCODED)))
    definition = Definition(
        tuple(f"k{at}" for at in range(len(keys))),
        tuple(f"p{at}" for at in range(len(partitions))),
        "ts" if ordering else None,
        upserts,
        tuple(properties),
    )
    return Model(definition, tuple(columns))


def _create(model: Model) -> str:
    columns = ", ".join(f"{quoted(each.name)} {each.kind}" for each in model.columns)
    of = model.definition
    parts = f" partitioned by ({', '.join(of.partitions)})" if of.partitions else ""
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in of.properties)
    return f"create table {{t}} ({columns}) using pyhudi{parts} tblproperties ({properties})"


def _step(chance: Chance, model: Model) -> Step:
    kinds = _KINDS if model.rows else _FIRST
    make = chance.one([k for k in kinds if not (chance.by_names and k in _BY_IDS)])
    sql, work, dynamic = make(chance, model)
    refused, after = None, model
    try:
        after = work()
    except Refused as error:
        refused = str(error)
    return Step(sql, refused, after, _condition(chance, after), dynamic)


#: the text of a statement, what it leaves, and whether overwriting is dynamic
Made = tuple[str, Callable[[], Model], bool]


def named(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


# ---- rows


def _value(chance: Chance, model: Model, name: str) -> Any:
    of, kind = model.definition, model.kind(name)
    if name in of.keys:
        return chance.one(KEYS[kind])
    if name in of.partitions:
        odd = ("a/b", "50%") if URL_ENCODED in of.properties and kind == "string" else ()
        return chance.one((*PARTITIONS[kind], *odd))
    return chance.one((*VALUES[kind], None))


def _rows(chance: Chance, model: Model, most: int) -> list[Row]:
    counted = range(chance.number(1, most))
    return [tuple(_value(chance, model, name) for name in model.names) for _ in counted]


def _clear(model: Model, rows: list[Row], fresh: bool) -> list[Row]:
    """Rows without two of one key whose order alone would decide; ``fresh``: of new keys alone."""
    if not model.definition.keys:
        return rows
    seen: dict[object, list[Row]] = {}
    if fresh:
        seen = {(model.path(row), model.key(row)): [] for row in model.rows}
    ordering, found = model.definition.ordering, []
    for row in rows:
        place = (model.path(row), model.key(row))
        rivals = seen.get(place)
        if rivals is None or (
            ordering and not fresh and all(_apart(model, row, each, ordering) for each in rivals)
        ):
            seen.setdefault(place, []).append(row)
            found.append(row)
    return found


def _apart(model: Model, a: Row, b: Row, name: str) -> bool:
    left, right = a[model.at(name)], b[model.at(name)]
    return left is not right if left is None or right is None else order(left, right) != 0


def _insert(chance: Chance, model: Model) -> Made:
    rows = _clear(model, _rows(chance, model, 8), fresh=not model.definition.upserts)
    if not rows:
        return _update(chance, model)
    if model.definition.keys and chance.once_in(12):
        at = model.at(model.definition.keys[0])
        rows.append((*rows[0][:at], None, *rows[0][at + 1 :]))
    if chance.once_in(3):
        names = chance.some(model.names, len(model.names), len(model.names))
        at = [model.at(name) for name in names]
        given = values_clause(
            [tuple(row[i] for i in at) for row in rows], [model.columns[i] for i in at]
        )
        return f"insert into {{t}} ({named(names)}) {given}", lambda: model.inserted(rows), False
    sql = f"insert into {{t}} {values_clause(rows, model.columns)}"
    return sql, lambda: model.inserted(rows), False


def _overwrite(chance: Chance, model: Model) -> Made:
    rows = _clear(replace(model, rows=()), _rows(chance, model, 4), fresh=True)
    given, parts = values_clause(rows, model.columns), model.definition.partitions
    way = chance.one(("dynamic", "static", "whole")) if parts else "whole"
    if way == "dynamic":
        touched = [model.path(row) for row in rows]
        return f"insert overwrite {{t}} {given}", lambda: model.overwritten(rows, touched), True
    path = _some_path(chance, model) if way == "static" else None
    if path is None:
        return f"insert overwrite {{t}} {given}", lambda: model.overwritten(rows, None), False
    places = dict(zip(parts, path, strict=True))
    rows = [
        tuple(places.get(name, value) for name, value in zip(model.names, row, strict=True))
        for row in rows
    ]
    rows = _clear(replace(model, rows=()), rows, fresh=True)
    rest = tuple(each for each in model.columns if each.name not in parts)
    kept = [tuple(row[model.at(each.name)] for each in rest) for row in rows]
    sql = f"insert overwrite {{t}} partition ({_spec(model, path)}) {values_clause(kept, rest)}"
    return sql, lambda: model.overwritten(rows, [path]), False


def _some_path(chance: Chance, model: Model) -> Row | None:
    """A partition that has rows and no null in its name."""
    paths = sorted({model.path(row) for row in model.rows if None not in model.path(row)}, key=repr)
    return chance.one(paths) if paths else None


def _spec(model: Model, path: Row) -> str:
    parts = model.definition.partitions
    # Spark takes plain literals here, no casts.
    texts = (str(value) if isinstance(value, int) else literal(value, "string") for value in path)
    return ", ".join(f"{name} = {text}" for name, text in zip(parts, texts, strict=True))


def _discard(chance: Chance, model: Model) -> Made:
    """Partitions, or all rows, taken away without a look at them."""
    path = _some_path(chance, model) if model.definition.partitions else None
    if path is None:
        return "truncate table {t}", lambda: model.overwritten([], None), False
    form = chance.one(("alter table {t} drop partition", "truncate table {t} partition"))
    return f"{form} ({_spec(model, path)})", lambda: model.overwritten([], [path]), False


# ---- conditions and values


def _simple(chance: Chance, model: Model, alias: str) -> Expression:
    name = chance.one(model.names)
    kind, of = model.kind(name), column(name, alias)
    if chance.once_in(6):
        return is_null(of)
    values = [v for v in _domain(model, name) if v is not None]
    if chance.once_in(5):
        return within(of, chance.some(values, 2), kind)
    return compare(of, chance.one(OPERATORS), constant(chance.one(values), kind))


def _domain(model: Model, name: str) -> tuple[Any, ...]:
    kind, of = model.kind(name), model.definition
    return (
        KEYS[kind]
        if name in of.keys
        else PARTITIONS[kind]
        if name in of.partitions
        else VALUES[kind]
    )


def _condition(chance: Chance, model: Model, alias: str = "") -> Expression:
    one = _simple(chance, model, alias)
    join = chance.one((None, both, either, negated))
    if join is None:
        return one
    return negated(one) if join is negated else join([one, _simple(chance, model, alias)])


def _whole_partitions(chance: Chance, model: Model) -> Expression:
    name = chance.one(model.definition.partitions)
    of, value = column(name), chance.one(PARTITIONS[model.kind(name)])
    return is_null(of) if value is None else compare(of, "=", constant(value, model.kind(name)))


def _assigned(chance: Chance, model: Model, name: str, aliases: Sequence[str]) -> Expression:
    """A value for a column, made of those of a row."""
    kind, alias = model.kind(name), chance.one(aliases)
    alike = [each.name for each in model.columns if each.kind == kind]
    given = constant(_value(chance, model, name), kind)
    form = chance.number(0, 4)
    plain = name not in model.definition.partitions
    if form == 0 or not plain:
        return given
    other = column(chance.one(alike), alias)
    if form == 1:
        return other
    if form == 2:
        return first_not_null(other, given)
    if form == 3 and kind in GROWING:
        return more(column(name, alias), kind)
    return chosen(_simple(chance, model, alias), given, other)


def _assignments(
    chance: Chance, model: Model, aliases: Sequence[str]
) -> tuple[str, dict[str, Expression]]:
    free = [name for name in model.names if name not in model.definition.keys]
    values = {name: _assigned(chance, model, name, aliases) for name in chance.some(free, 3)}
    if model.definition.keys and chance.once_in(15):
        key = model.definition.keys[0]
        values[key] = constant(chance.one(KEYS[model.kind(key)]), model.kind(key))
    texts = (f"{quoted(name)} = {value.sql}" for name, value in values.items())
    return ", ".join(texts), values


# ---- UPDATE, DELETE, MERGE


def _update(chance: Chance, model: Model) -> Made:
    text, values = _assignments(chance, model, ("",))
    test = ALWAYS if chance.once_in(6) else _condition(chance, model)
    clause = Clause(MATCHED, test, values)

    def work() -> Model:
        found = {at: model.scope(row) for at, row in enumerate(model.rows)}
        changes = {
            at: clause.row(model, model.rows[at], scope)
            for at, scope in found.items()
            if test.of(scope)
        }
        return model.changed(changes)

    where = "" if test is ALWAYS else f" where {test.sql}"
    return f"update {{t}} set {text}{where}", work, False


def _delete(chance: Chance, model: Model) -> Made:
    whole = bool(model.definition.partitions) and chance.once_in(3)
    test = _whole_partitions(chance, model) if whole else _condition(chance, model)

    def work() -> Model:
        doomed = [at for at, row in enumerate(model.rows) if test.of(model.scope(row))]
        return model.changed(dict.fromkeys(doomed))

    return f"delete from {{t}} where {test.sql}", work, False


def _merge(chance: Chance, model: Model) -> Made:
    of = model.definition
    rows = _rows(chance, model, 6)
    if of.keys and not chance.once_in(6):
        rows = list({model.key(row): row for row in rows}.values())
    ties = of.keys or chance.some(model.names, 1)
    on = [compare(column(name, "t"), "=", column(name, "s")) for name in ties]
    if of.partitions and chance.once_in(3):
        on += [compare(column(n, "t"), "<=>", column(n, "s")) for n in of.partitions]
    if chance.once_in(5):
        on.append(_simple(chance, model, chance.one(("t", "s"))))
    test = both(on)
    texts, clauses = [], []
    for kind in sorted(chance.some((MATCHED, NEW, LEFT), 3), key=[MATCHED, NEW, LEFT].index):
        for last in (False, True):
            if last or chance.once_in(3):
                text, clause = _clause(chance, model, kind, last)
                texts.append(text)
                clauses.append(clause)
    given = values_clause(rows, model.columns)
    source = f"(select * from {given} as v({named(model.names)}))"
    sql = f"merge into {{t}} t using {source} s on {test.sql} {' '.join(texts)}"
    scopes = [model.scope(row, "s") for row in rows]
    return sql, lambda: merged(model, scopes, test, clauses), False


def _clause(chance: Chance, model: Model, kind: str, last: bool) -> tuple[str, Clause]:
    sides = {MATCHED: ("t", "s"), NEW: ("s",), LEFT: ("t",)}[kind]
    bare = last and chance.one((True, False))
    test = ALWAYS if bare else _condition(chance, model, chance.one(sides))
    given = {name: column(name, "s") for name in model.names}
    values: dict[str, Expression] | None
    if kind == NEW:
        then, values = "insert *", given
        if chance.once_in(2):
            some = model.definition.fixed
            values = {
                name: given[name] if name in some else _assigned(chance, model, name, sides)
                for name in model.names
            }
            texts = ", ".join(value.sql for value in values.values())
            then = f"insert ({named(tuple(values))}) values ({texts})"
    elif chance.once_in(3):
        then, values = "delete", None
    elif kind == MATCHED and chance.one((True, False)):
        then, values = "update set *", given
    else:
        text, values = _assignments(chance, model, sides)
        then = f"update set {text}"
    only = "" if test is ALWAYS else f" and ({test.sql})"
    return f"when {kind}{only} then {then}", Clause(kind, test, values)


# ---- ALTER TABLE


def _add(chance: Chance, model: Model) -> Made:
    kind = chance.one(tuple(WIDER))
    name = chance.one([n for n in NAMES if n not in model.names] or ["late"])
    if chance.once_in(8):
        name = chance.one(model.names)
    after = None if chance.by_names else chance.one((None, "", chance.one(model.names)))
    place = "" if after is None else " first" if not after else f" after {quoted(after)}"
    sql = f"alter table {{t}} add columns ({quoted(name)} {kind}{place})"
    return sql, lambda: model.added(Column(name, kind), after), False


def _free(chance: Chance, model: Model) -> str:
    """A column that may change its name, mostly."""
    free = [name for name in model.names if name not in model.definition.fixed]
    return chance.one(model.names if not free or chance.once_in(8) else free)


def _rename(chance: Chance, model: Model) -> Made:
    name, to = _free(chance, model), chance.one(NAMES)
    sql = f"alter table {{t}} rename column {quoted(name)} to {quoted(to)}"
    return sql, lambda: model.renamed(name, to), False


def _drop(chance: Chance, model: Model) -> Made:
    if len(model.names) - len(model.definition.fixed) < 2:
        return _add(chance, model)
    name = _free(chance, model)
    return f"alter table {{t}} drop column {quoted(name)}", lambda: model.dropped(name), False


def _move(chance: Chance, model: Model) -> Made:
    name = chance.one(model.names)
    after = chance.one(("", *(each for each in model.names if each != name)))
    place = f"after {quoted(after)}" if after else "first"
    sql = f"alter table {{t}} alter column {quoted(name)} {place}"
    return sql, lambda: model.moved(name, after), False


def _widen(chance: Chance, model: Model) -> Made:
    grows = [each.name for each in model.columns if WIDER[each.kind]]
    if not grows:
        return _add(chance, model)
    name = chance.one(grows)
    kind = chance.one(WIDER[model.kind(name)])
    if chance.once_in(8):
        kind = chance.one(("boolean", "date"))
    sql = f"alter table {{t}} alter column {quoted(name)} type {kind}"
    return sql, lambda: model.widened(name, kind), False


Maker = Callable[[Chance, Model], Made]
_BY_IDS: tuple[Maker, ...] = (_rename, _drop, _move)
_FIRST: tuple[Maker, ...] = (_insert, _insert, _insert, _insert, _overwrite, _merge, _add, _rename)
_KINDS: tuple[Maker, ...] = (
    *(_update, _merge, _delete) * 4, *(_insert,) * 4, *(_overwrite, _discard),
    *(_add, _rename, _drop, _move, _widen),
)  # fmt: skip
