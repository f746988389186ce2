"""What random statements are drawn from: values, conditions on rows, and values to assign."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.sql_domains import (
    FIELD_NAMES,
    KEYS,
    MAP_KEYS,
    PARTITIONS,
    URL_ENCODED,
    VALUES,
)
from tests.sql_expressions import (
    OPERATORS,
    Expression,
    both,
    chosen,
    compare,
    constant,
    either,
    field,
    first_not_null,
    is_null,
    more,
    negated,
    within,
)
from tests.sql_model import Model
from tests.sql_values import (
    WIDER,
    Column,
    Row,
    fields,
    is_simple,
    is_struct,
    parts,
    quoted,
    struct,
)

T = TypeVar("T")
#: no new values by path
EMPTY: Mapping[str, Expression] = {}
GROWING = ("int", "bigint", "decimal(9,2)", "decimal(12,2)", "double", "string")
#: types of what arrays and maps hold
PLAIN = ("int", "bigint", "double", "string", "decimal(12,2)", "boolean", "date", "timestamp")


@dataclass(frozen=True, slots=True)
class Made:
    """A statement and what it leaves.

    ``dynamic``: it overwrites partitions dynamically. ``options``: it is a query, and what it gives
    is appended by the DataFrame writer with these options.
    """

    sql: str
    after: Callable[[], Model]
    dynamic: bool = False
    options: Mapping[str, str] | None = None


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


def named(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


# ---- values


def draw_kind(chance: Chance, depth: int = 2) -> str:
    """A type: simple mostly, a struct of up to ``depth`` levels, an array or a map."""
    form = chance.number(0, 9)
    if form < 2 and depth:
        names = chance.some(FIELD_NAMES, 3)
        return struct([Column(name, draw_kind(chance, depth - 1)) for name in names])
    if form == 2:
        return f"array<{chance.one(PLAIN)}>"
    if form == 3:
        return f"map<string,{chance.one(PLAIN)}>"
    return chance.one(tuple(WIDER))


def draw_value(chance: Chance, kind: str) -> Any:
    """A value of a type, or null."""
    if is_simple(kind):
        return chance.one((*VALUES[kind], None))
    if chance.once_in(5):
        return None
    if is_struct(kind):
        return tuple(draw_value(chance, each.kind) for each in fields(kind))
    if kind.startswith("map<"):
        of = parts(kind)[1]
        return {key: draw_value(chance, of) for key in chance.some(MAP_KEYS, 3, 0)}
    # Arrays hold no nulls: the guide says why.
    (of,) = parts(kind)
    return tuple(chance.one(VALUES[of]) for _ in range(chance.number(0, 3)))


def row_value(chance: Chance, model: Model, path: str) -> Any:
    """A value for a column, or for a field in one."""
    of, kind = model.definition, model.kind(path)
    if path in of.keys:
        return chance.one(KEYS[kind])
    if path in of.partitions:
        odd = ("a/b", "50%") if URL_ENCODED in of.properties and kind == "string" else ()
        return chance.one((*PARTITIONS[kind], *odd))
    return draw_value(chance, kind)


def draw_rows(chance: Chance, model: Model, most: int) -> list[Row]:
    counted = range(chance.number(1, most))
    return [tuple(row_value(chance, model, name) for name in model.names) for _ in counted]


def clear(model: Model, rows: list[Row], fresh: bool) -> list[Row]:
    """Rows without two of one key whose order alone would decide; ``fresh``: of new keys alone."""
    if not model.definition.keys:
        return rows
    seen: dict[object, list[Row]] = {}
    if fresh:
        seen = {model.place(row): [] for row in model.rows}
    ordering, found = model.definition.decides, []
    for row in rows:
        place = model.place(row)
        rivals = seen.get(place)
        if rivals is None or (
            ordering and not fresh and all(model.rank(row) != model.rank(each) for each in rivals)
        ):
            seen.setdefault(place, []).append(row)
            found.append(row)
    return found


# ---- conditions


def simple_condition(chance: Chance, model: Model, alias: str) -> Expression:
    if chance.once_in(6) or not model.simple:
        return is_null(field(model.columns, chance.one(tuple(model.paths)), alias))
    path = chance.one(model.simple)
    kind, of = model.kind(path), field(model.columns, path, alias)
    values = [v for v in _domain(model, path) if v is not None]
    if chance.once_in(5):
        return within(of, chance.some(values, 2), kind)
    return compare(of, chance.one(OPERATORS), constant(chance.one(values), kind))


def _domain(model: Model, path: str) -> tuple[Any, ...]:
    kind, of = model.kind(path), model.definition
    return (
        KEYS[kind]
        if path in of.keys
        else PARTITIONS[kind]
        if path in of.partitions
        else VALUES[kind]
    )


def condition(chance: Chance, model: Model, alias: str = "") -> Expression:
    one = simple_condition(chance, model, alias)
    form = chance.one(("plain", "and", "or", "not"))
    if form in ("plain", "not"):
        return one if form == "plain" else negated(one)
    join = both if form == "and" else either
    return join([one, simple_condition(chance, model, alias)])


def whole_partitions(chance: Chance, model: Model) -> Expression:
    name = chance.one(model.definition.partitions)
    of, value = field(model.columns, name), chance.one(PARTITIONS[model.kind(name)])
    return is_null(of) if value is None else compare(of, "=", constant(value, model.kind(name)))


# ---- assignments


def assigned(chance: Chance, model: Model, path: str, aliases: Sequence[str]) -> Expression:
    """A value for a column or field, made of those of a row."""
    kind, alias = model.kind(path), chance.one(aliases)
    alike = [each for each, of in model.paths.items() if of == kind]
    given = constant(row_value(chance, model, path), kind)
    form = chance.number(0, 4)
    if form == 0 or path in model.definition.partitions:
        return given
    other = field(model.columns, chance.one(alike), alias)
    if form == 1:
        return other
    if form == 2:
        return first_not_null(other, given)
    if form == 3 and kind in GROWING:
        return more(field(model.columns, path, alias), kind)
    return chosen(simple_condition(chance, model, alias), given, other)


def assignments(
    chance: Chance, model: Model, aliases: Sequence[str], given: Mapping[str, Expression] = EMPTY
) -> tuple[str, dict[str, Expression]]:
    """What stands behind SET, and the new values by path, those of ``given`` among them."""
    free = [path for path in model.paths if path not in model.definition.keys]
    values = dict(given)
    for path in chance.some(free, 3):
        if not any(_overlap(path, other) for other in values):
            values[path] = assigned(chance, model, path, aliases)
    if model.definition.keys and chance.once_in(15):
        key = model.definition.keys[0]
        values[key] = constant(chance.one(KEYS[model.kind(key)]), model.kind(key))
    texts = (f"{quoted(path)} = {value.sql}" for path, value in values.items())
    return ", ".join(texts), values


def _overlap(a: str, b: str) -> bool:
    return f"{a}.".startswith(f"{b}.") or f"{b}.".startswith(f"{a}.")
