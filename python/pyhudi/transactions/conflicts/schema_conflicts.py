"""Writers that change the table's schema at the same time (RFC-82).

A write knows three schemas: the table's at its beginning, the table's at its commit, and its own.
``settled`` decides which schema the commit declares, or refuses the commit. Schemas are equal if
columns and types are equal, in order; nullability and comments do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pyhudi.choices import SchemaConflicts
from pyhudi.errors import SchemaConflict
from pyhudi.format.schemas import type_text
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.widening import Fields, merged_type, paths, same_type

Rule = Callable[[SparkSchema | None, SparkSchema, SparkSchema], SparkSchema]


def settled(
    rule: SchemaConflicts, start: SparkSchema | None, now: SparkSchema | None, ours: SparkSchema
) -> SparkSchema:
    """The schema that a commit of ours declares; ``SchemaConflict`` if it must not commit.

    The cases are those of RFC-82's table, by number; all but two are the same for every rule.
    """
    if now is None:
        return ours  # 1: the first commit ever
    if start is not None and same_schema(start, now):
        return ours  # 4 and 5: nobody else changed anything
    if same_schema(ours, now):
        return ours  # 2 and 7: both declare the same
    if start is not None and same_schema(ours, start):
        return now  # 6: only the other one changed something
    return _RULES[rule](start, now, ours)  # 3 and 8: both did, and differently


def same_schema(one: SparkSchema, other: SparkSchema) -> bool:
    """Whether two schemas have the same columns of the same types in the same order."""
    return same_type(one.json(), other.json())


def _refuse(start: SparkSchema | None, now: SparkSchema, ours: SparkSchema) -> SparkSchema:
    """RFC-82's own rule: the first to commit wins."""
    column, mine, theirs = _first_difference(now, ours)
    began = "did not exist" if start is None else "was another"
    raise SchemaConflict(
        f"Another writer has committed a schema of its own since this write began, when the "
        f"table's {began}: column '{column}' is {type_text(theirs)} there, "
        f"{type_text(mine)} here. "
        "Nothing of this write is visible. Run it again to build on the new schema, or let "
        "changes that go together be merged by "
        "hoodie.write.concurrency.schema.conflict.resolution.strategy=reconcile.",
        column=column,
        ours=mine,
        theirs=theirs,
        rule="concurrent schema change",
    )


def _reconcile(start: SparkSchema | None, now: SparkSchema, ours: SparkSchema) -> SparkSchema:
    """Both changes in one schema, theirs first: columns and fields added, types widened.

    ``SchemaConflict`` if a column's types do not widen into each other, or if one side has dropped
    a column or field that the other still declares.
    """
    mine = ours.by_lower_name()
    known = (start or SparkSchema()).by_lower_name()
    found = []
    for column in now.columns:
        other = mine.pop(column.lower_name, None)
        if other is None and column.lower_name in known:
            raise _dropped(column.name, None, column.type)
        if other is not None:
            start_type = known[column.lower_name].type if column.lower_name in known else "void"
            kept = paths(start_type) <= paths(column.type) & paths(other.type)
            fields = Fields.EITHER if kept else Fields.SAME
            kind = merged_type(column.name, column.type, other.type, fields)
            column = replace(column, type=kind)
        found.append(column)
    for column in mine.values():
        if column.lower_name in known:
            raise _dropped(column.name, column.type, None)
        found.append(replace(column, nullable=True))
    return SparkSchema(tuple(found))


_RULES: Final[dict[SchemaConflicts, Rule]] = {
    SchemaConflicts.SIMPLE: _refuse,
    SchemaConflicts.RECONCILE: _reconcile,
}


def _dropped(column: str, mine: object, theirs: object) -> SchemaConflict:
    who = "this write drops it" if mine is None else "the other writer has dropped it"
    return SchemaConflict(
        f"Column '{column}' cannot be reconciled with the schema that another writer has "
        f"committed since this write began: {who}. Nothing of this write is visible. Run it "
        "again: it then starts from the new schema.",
        column=column,
        ours=mine,
        theirs=theirs,
        rule="a column that was dropped meanwhile",
    )


def _first_difference(now: SparkSchema, ours: SparkSchema) -> tuple[str, object, object]:
    """(column, our type, their type) of the first column in which the schemas differ."""
    mine, theirs = ours.by_lower_name(), now.by_lower_name()
    for name, column in {**mine, **theirs}.items():
        a, b = mine.get(name), theirs.get(name)
        if a is None or b is None or not same_type(a.type, b.type):
            return column.name, a and a.type, b and b.type
    moved = next(
        a for a, b in zip(ours.columns, now.columns, strict=True) if a.lower_name != b.lower_name
    )
    return moved.name, "in another place", "in its place"
