"""Random sequences of statements and writes on a table, each with the model of what it leaves.

A sequence is a pure function of its number, made without Spark: a statement is drawn for the model
as the ones before have left it. ``{t}`` stands for the table's name. The draws are a seed's and not
hypothesis's, which tries many near copies of one example: a sequence takes seconds to run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.sql_column_draws import add, drop, move, rename, widen
from tests.sql_columns import Refused
from tests.sql_domains import (
    FILLS,
    GLOBAL,
    INDEXES,
    LATEST,
    LOGS,
    MERGE_ON_READ,
    NAMES,
    PLAIN_FOLDERS,
    UPSERT,
    URL_ENCODED,
    VERSION,
    ZONES,
)
from tests.sql_draws import Chance, Made, condition, draw_kind
from tests.sql_expressions import Expression
from tests.sql_frame_draws import append, remove
from tests.sql_model import Definition, Model
from tests.sql_query_draws import queried
from tests.sql_row_draws import copy, delete, discard, insert, merge, overwrite, redefine, update
from tests.sql_service_draws import serve
from tests.sql_values import Column, quoted, sql_type

STATEMENTS = 9
#: types of the key columns
KEY_KINDS: tuple[tuple[str, ...], ...] = (
    ("bigint",), ("string",), ("int",), ("bigint", "string"), (),
    ("timestamp_ntz",), ("decimal(9,2)",), ("date", "timestamp"),
)  # fmt: skip
#: types of the ordering column
ORDERINGS = ("bigint", "int", None, "double", "timestamp")

Maker = Callable[[Chance, Model], Made]


@dataclass(frozen=True, slots=True)
class Step:
    """One statement; ``refused`` are words of its error, None where it succeeds.

    ``after`` is the table afterwards. ``probe`` is a condition on rows of ``t``, for a query.
    ``zone`` is the session's time zone for both.
    """

    made: Made
    refused: str | None
    after: Model
    probe: Expression
    zone: str

    def __str__(self) -> str:
        how = f" -- in {self.zone}"
        if self.made.options is not None:
            how += f", appended with {self.made.options}"
        return f"{self.made.sql};{how}"


@dataclass(frozen=True, slots=True, repr=False)
class Story:
    """A table's creation, and what is done to it."""

    create: str
    start: Model
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        """The statements."""
        return "\n".join((self.create, *map(str, self.steps)))


def story(number: int) -> Story:
    """The sequence of this number: a table and ``STATEMENTS`` statements."""
    chance = Chance(number)
    return _told(chance, _filling(_typed(_table(chance), number), number))


def logged_story(number: int) -> Story:
    """A sequence on a merge-on-read table, with services between the statements."""
    chance = Chance(number)
    model = _table(chance)
    more = MERGE_ON_READ, *chance.one(LOGS)
    of = model.definition
    definition = replace(of, properties=(*of.properties, *more))
    model = _filling(replace(model, definition=definition), number)
    return _told(chance, model, (serve, serve, serve, serve))


def _told(chance: Chance, start: Model, services: tuple[Maker, ...] = ()) -> Story:
    model, steps = start, []
    for _ in range(STATEMENTS + len(services)):
        step = _step(chance, model, services)
        steps.append(step)
        model = step.after
    return Story(_create(start), start, tuple(steps))


def _table(chance: Chance) -> Model:
    version = chance.one(("9", "8", "6"))
    keys = chance.one(KEY_KINDS)
    partitions = chance.one((("string",), (), ("string",), ("int",), ("date", "string")))
    columns = [Column(f"k{at}", kind) for at, kind in enumerate(keys)]
    columns += [Column(name, draw_kind(chance)) for name in NAMES[: chance.number(1, 3)]]
    ordering = chance.one(ORDERINGS) if keys else None
    columns += [Column("ts", ordering)] if ordering else []
    columns += [Column(f"p{at}", kind) for at, kind in enumerate(partitions)]
    properties = [(VERSION, version)]
    upserts = bool(ordering)
    if keys:
        properties.append(("primaryKey", ",".join(f"k{at}" for at in range(len(keys)))))
        properties += chance.one(INDEXES)
    if ordering:
        properties += [("preCombineField", "ts"), UPSERT]
        properties += chance.one(((), (), (LATEST,)))
    elif keys and chance.one((True, False)):
        upserts = True
        properties.append(UPSERT)
    if partitions:
        properties += chance.one(
            ((), (PLAIN_FOLDERS,), (URL_ENCODED,), (PLAIN_FOLDERS, URL_ENCODED))
        )
    definition = Definition(
        tuple(f"k{at}" for at in range(len(keys))),
        tuple(f"p{at}" for at in range(len(partitions))),
        "ts" if ordering else None,
        upserts,
        tuple(properties),
        GLOBAL in properties,
        LATEST in properties,
    )
    return Model(definition, tuple(columns))


def _typed(model: Model, number: int) -> Model:
    """The table, by commit time merge-on-read in every other sequence."""
    of = model.definition
    if number % 2 or of.decides is not None:
        return model
    return replace(model, definition=replace(of, properties=(*of.properties, MERGE_ON_READ)))


def _filling(model: Model, number: int) -> Model:
    """The table, by commit time with partial updates where it can, in two of three sequences."""
    of = model.definition
    can = (VERSION, "9") in of.properties and of.upserts and of.decides is None and not of.unique
    if number % 3 == 0 or not can:
        return model
    return replace(model, definition=replace(of, fills=True, properties=(*of.properties, FILLS)))


def _create(model: Model) -> str:
    columns = ", ".join(f"{quoted(each.name)} {sql_type(each.kind)}" for each in model.columns)
    of = model.definition
    parts = f" partitioned by ({', '.join(of.partitions)})" if of.partitions else ""
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in of.properties)
    return f"create table {{t}} ({columns}) using pyhudi{parts} tblproperties ({properties})"


def _step(chance: Chance, model: Model, services: tuple[Maker, ...]) -> Step:
    kinds = (*_KINDS, *services) if model.rows else _FIRST
    make = chance.one([k for k in kinds if not (chance.by_names and k in _BY_IDS)])
    made = make(chance, model)
    refused, after = None, model
    try:
        after = made.after()
    except Refused as error:
        refused = str(error)
    return Step(made, refused, after, _probe(chance, after), chance.one(ZONES))


def _probe(chance: Chance, model: Model) -> Expression:
    return queried(chance, model, "t") if chance.once_in(4) else condition(chance, model, "t")


_BY_IDS: tuple[Maker, ...] = (rename, drop, move, redefine)
_FIRST: tuple[Maker, ...] = (insert, insert, insert, append, overwrite, merge, add, rename)
_KINDS: tuple[Maker, ...] = (
    *(update, merge, delete) * 4, *(insert,) * 4, *(copy, overwrite, discard),
    *(append, append, remove), *(add, rename, drop, move, widen, redefine),
)  # fmt: skip
