"""Queries on the table itself, in random conditions and as sources of INSERT and MERGE."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from tests.sql_draws import Chance, assigned, condition, simple_condition
from tests.sql_expressions import (
    ALWAYS,
    Expression,
    both,
    column,
    compare,
    exists,
    field,
    negated,
    of_query,
    within_query,
)
from tests.sql_model import Model
from tests.sql_values import Row, order, quoted

#: the alias of the table in sub-queries
INNER = "o"
FLOATING = ("float", "double")


def queried(chance: Chance, model: Model, alias: str) -> Expression:
    """A condition on a row of ``alias`` that asks the table."""
    one = _sub_query(chance, model, alias) if model.simple else condition(chance, model, alias)
    form = chance.one(("plain", "and", "not"))
    if form == "plain":
        return one
    return negated(one) if form == "not" else both([one, simple_condition(chance, model, alias)])


def _sub_query(chance: Chance, model: Model, alias: str) -> Expression:
    path = chance.one(model.simple)
    kind, of = model.kind(path), field(model.columns, path, alias)
    other = field(model.columns, chance.one(_alike(model, kind)), INNER)
    test = simple_condition(chance, model, INNER)
    form = chance.number(0, 2)
    if form == 0:
        operator = chance.one(("=", "<=>", "<"))
        rows = [model.scope(row, INNER) for row in model.rows]
        return exists(rows, both([compare(other, operator, of), test]), INNER)
    if form == 1:
        of, other = _one_zero(of, kind), _one_zero(other, kind)
        query = f"select {other.sql} from {{t}} {INNER} where {test.sql}"
        return within_query(of, _selected(model, other, test), kind, query)
    return compare(of, chance.one(("=", "<", ">=")), _largest(model, other, test))


def _one_zero(of: Expression, kind: str) -> Expression:
    """The value, 0.0 for -0.0: to the join of NOT IN they differ in Spark 3.5, on any table."""
    if kind not in FLOATING:
        return of
    return Expression(f"{of.sql} + 0", of.of)


def largest(chance: Chance, model: Model) -> dict[str, Expression]:
    """A path and its new value: the largest of some column of its type."""
    of = model.definition
    # Of 0.0 and -0.0 either may be the largest.
    free = [
        path
        for path in model.simple
        if path not in (*of.keys, *of.partitions) and model.kind(path) not in FLOATING
    ]
    if not free:
        return {}
    path = chance.one(free)
    other = field(model.columns, chance.one(_alike(model, model.kind(path))), INNER)
    return {path: _largest(model, other, simple_condition(chance, model, INNER))}


def _largest(model: Model, of: Expression, test: Expression) -> Expression:
    known = (value for value in _selected(model, of, test) if value is not None)
    return of_query(
        max(known, key=functools.cmp_to_key(order), default=None),
        f"select max({of.sql}) from {{t}} {INNER} where {test.sql}",
    )


def _alike(model: Model, kind: str) -> list[str]:
    return [path for path in model.simple if model.kind(path) == kind]


def _selected(model: Model, of: Expression, test: Expression) -> list[Any]:
    scopes = (model.scope(row, INNER) for row in model.rows)
    return [of.of(scope) for scope in scopes if test.of(scope)]


def self_query(chance: Chance, model: Model, fixed: Iterable[str] = ()) -> tuple[str, list[Row]]:
    """A query that gives rows of the table with some new values, ``fixed`` columns as they are."""
    free = [name for name in model.names if name not in fixed]
    changed = chance.some(free, 2, 0)
    given = {
        name: assigned(chance, model, name, ("",)) if name in changed else column(name)
        for name in model.names
    }
    test = ALWAYS if chance.once_in(4) else simple_condition(chance, model, "")
    scopes = [model.scope(row) for row in model.rows]
    rows = [tuple(e.of(scope) for e in given.values()) for scope in scopes if test.of(scope)]
    texts = ", ".join(f"{e.sql} as {quoted(name)}" for name, e in given.items())
    return f"select {texts} from {{t}} where {test.sql}", rows
