"""What ALTER TABLE makes of the columns of a table, or of the fields of a struct in one.

An edit takes columns in their order and gives the new ones, with what becomes of a row of values.
The same edits serve tables and structs: a struct's fields are columns, its value is a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.sql_values import WIDER, Column, Row, converted, fields, struct

Columns = tuple[Column, ...]
Edit = Callable[[Columns], tuple[Columns, Callable[[Row], Row]]]


class Refused(Exception):
    """The statement fails, with these words in its message, and changes nothing."""


def inside(structs: Sequence[str], edit: Edit) -> Edit:
    """The edit of the fields of the struct that these names lead to."""
    if not structs:
        return edit

    def outer(columns: Columns) -> tuple[Columns, Callable[[Row], Row]]:
        at = _place(columns, structs[0])
        inner, change = inside(structs[1:], edit)(fields(columns[at].kind))

        def changed(row: Row) -> Row:
            return (*row[:at], None if row[at] is None else change(row[at]), *row[at + 1 :])

        return _with(columns, at, replace(columns[at], kind=struct(inner))), changed

    return outer


def added(column: Column, after: str | None) -> Edit:
    """A column, null in all rows, at the end, at the beginning ("") or after another."""

    def edit(columns: Columns) -> tuple[Columns, Callable[[Row], Row]]:
        _check_new(columns, column.name)
        grown = (*columns, column)
        if after is None:
            return grown, lambda row: (*row, None)
        found, order = moved(column.name, after)(grown)
        return found, lambda row: order((*row, None))

    return edit


def renamed(name: str, to: str) -> Edit:
    def edit(columns: Columns) -> tuple[Columns, Callable[[Row], Row]]:
        at = _place(columns, name)
        _check_new(columns, to)
        return _with(columns, at, replace(columns[at], name=to)), lambda row: row

    return edit


def dropped(name: str) -> Edit:
    def edit(columns: Columns) -> tuple[Columns, Callable[[Row], Row]]:
        at = _place(columns, name)
        if len(columns) == 1:
            raise Refused("needs at least one column")
        return (*columns[:at], *columns[at + 1 :]), lambda row: (*row[:at], *row[at + 1 :])

    return edit


def moved(name: str, after: str) -> Edit:
    """Behind another column, to the beginning where that is ""."""

    def edit(columns: Columns) -> tuple[Columns, Callable[[Row], Row]]:
        others = [at for at, each in enumerate(columns) if each.name != name]
        place = 0 if not after else others.index(_place(columns, after)) + 1
        order = (*others[:place], _place(columns, name), *others[place:])
        return tuple(columns[at] for at in order), lambda row: tuple(row[at] for at in order)

    return edit


def widened(name: str, kind: str) -> Edit:
    def edit(columns: Columns) -> tuple[Columns, Callable[[Row], Row]]:
        at = _place(columns, name)
        if kind not in (columns[at].kind, *WIDER[columns[at].kind]):
            raise Refused("")
        cast = converted(kind)

        def changed(row: Row) -> Row:
            return (*row[:at], None if row[at] is None else cast(row[at]), *row[at + 1 :])

        return _with(columns, at, replace(columns[at], kind=kind)), changed

    return edit


def _place(columns: Columns, name: str) -> int:
    return [each.name for each in columns].index(name)


def _with(columns: Columns, at: int, column: Column) -> Columns:
    return (*columns[:at], column, *columns[at + 1 :])


def _check_new(columns: Columns, name: str) -> None:
    if name in [each.name for each in columns]:
        raise Refused("already exists")
