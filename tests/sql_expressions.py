"""Expressions of the random statements: SQL text, and what it gives for a row in plain Python.

Comparisons and three-valued logic are Spark's. ``{t}`` stands for the table's name in sub-queries,
whose rows are known when the expression is made: a statement sees the table as it began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.sql_values import Column, fields, literal, order, quoted

#: the values of one row by (alias of its table, column); the alias is "" where there is but one
Scope = Mapping[tuple[str, str], Any]


@dataclass(frozen=True, slots=True)
class Expression:
    """SQL text and what it gives for a row: a predicate gives True, False or None."""

    sql: str
    of: Callable[[Scope], Any]


ALWAYS = Expression("true", lambda scope: True)


def column(name: str, alias: str = "") -> Expression:
    return Expression(_qualified(name, alias), lambda scope: scope[alias, name])


def field(columns: Sequence[Column], path: str, alias: str = "") -> Expression:
    """A column, or a field in one: null where a struct around it is null."""
    name, *inner = path.split(".")
    kind = next(each.kind for each in columns if each.name == name)
    places = []
    for part in inner:
        names = [each.name for each in fields(kind)]
        places.append(names.index(part))
        kind = fields(kind)[places[-1]].kind

    def of(scope: Scope) -> Any:
        value = scope[alias, name]
        for place in places:
            value = None if value is None else value[place]
        return value

    return Expression(_qualified(path, alias), of)


def _qualified(path: str, alias: str) -> str:
    return f"{alias}.{quoted(path)}" if alias else quoted(path)


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
    texts = ", ".join(literal(value, kind) for value in values)
    return within_query(of, values, kind, texts)


def within_query(of: Expression, values: Sequence[Any], kind: str, query: str) -> Expression:
    """``of in (query)``, where the query gives ``values``."""
    found = either([compare(of, "=", constant(value, kind)) for value in values])
    return Expression(f"{of.sql} in ({query})", found.of)


def of_query(value: Any, query: str) -> Expression:
    """A query in brackets that gives one value."""
    return Expression(f"({query})", lambda scope: value)


def exists(inner: Sequence[Scope], test: Expression, alias: str) -> Expression:
    """Whether the table has a row for which ``test`` is true, which may name the outer row too."""
    return Expression(
        f"exists (select 1 from {{t}} {alias} where {test.sql})",
        lambda scope: any(test.of({**scope, **each}) for each in inner),
    )


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
