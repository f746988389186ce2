"""A table's columns as all code outside ``format/`` knows them: Spark's StructType as a value.

A column's ``type`` is Spark's JSON, a text or a tree. Others pass it on, compare it by
``widening.py`` and show it by ``type_text``; only ``format/`` looks into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa

from pyhudi.format import schemas
from pyhudi.format.arrow_schemas import arrow_to_spark

SparkType = Any
T = TypeVar("T")
_COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``metadata`` is Spark's own, and holds the comment."""

    name: str
    type: SparkType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lower_name(self) -> str:
        """The name as others compare it: its case does not count."""
        return self.name.lower()

    @property
    def is_nested(self) -> bool:
        """Whether it holds structs, lists or maps."""
        return not isinstance(self.type, str)

    @property
    def comment(self) -> str | None:
        """What a user says of the column."""
        return self.metadata.get(_COMMENT)

    def with_comment(self, text: str | None) -> Column:
        """The column with another comment; None takes it away."""
        metadata = {**self.metadata, _COMMENT: text}
        return replace(self, metadata={k: v for k, v in metadata.items() if v is not None})


@dataclass(frozen=True, slots=True)
class SparkSchema:
    """The columns of a table, or of one of its files, in their order.

    There are no meta columns, unless ``with_meta_columns`` has put them there.
    """

    columns: tuple[Column, ...] = ()

    @classmethod
    def parse(cls, struct: Mapping[str, Any]) -> SparkSchema:
        """A schema from Spark's JSON; ``KeyError`` if it lacks a part of a StructType."""
        return cls(
            tuple(
                Column(each["name"], each["type"], each["nullable"], each.get("metadata") or {})
                for each in struct["fields"]
            )
        )

    @classmethod
    def of_avro(cls, avro: Mapping[str, Any]) -> SparkSchema:
        """A table's Avro record without meta columns; ``UnsupportedTable`` names a column whose
        type Spark lacks."""
        return cls.parse(schemas.avro_to_spark(avro))

    @classmethod
    def of_arrow(cls, schema: pa.Schema) -> SparkSchema:
        """The schema of a data file without meta columns; errors as in ``arrow_to_spark``."""
        return cls.parse(arrow_to_spark(schema))

    def json(self) -> dict[str, Any]:
        """The same in Spark's JSON, as ``StructType.fromJson`` takes it."""
        fields = [
            {"name": c.name, "type": c.type, "nullable": c.nullable, "metadata": c.metadata}
            for c in self.columns
        ]
        return {"type": "struct", "fields": fields}

    def avro(self, table_name: str) -> dict[str, Any]:
        """The table's Avro record; ``SchemaConflict`` as in ``spark_to_avro``."""
        return schemas.spark_to_avro(self.json(), table_name)

    def declaration(self, table_name: str) -> str:
        """The text by which a commit declares the schema: its Avro, as Hudi stores it."""
        return schemas.canonical_json(self.avro(table_name))

    def arrow(self) -> pa.Schema:
        """The Arrow schema; ``SchemaConflict`` as in ``spark_to_arrow``."""
        return schemas.spark_to_arrow(self.json())

    def as_stored(self, table_name: str) -> SparkSchema:
        """Converted to Avro and back, as readers will see it: Avro has no short, only int."""
        return SparkSchema.of_avro(self.avro(table_name))

    def with_meta_columns(self) -> SparkSchema:
        """The five meta columns in front, as files have them."""
        return SparkSchema.parse(schemas.with_meta_columns(self.json()))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in their order."""
        return tuple(column.name for column in self.columns)

    @property
    def types(self) -> dict[str, SparkType]:
        """Name -> type."""
        return {column.name: column.type for column in self.columns}

    def with_last(self, names: Iterable[str]) -> SparkSchema:
        """The columns of ``names`` at the end; names of other columns change nothing."""
        return SparkSchema(tuple(put_last(self.by_lower_name(), names)))

    def by_lower_name(self) -> dict[str, Column]:
        """The columns by their lower names, a dict of the caller's own."""
        return {column.lower_name: column for column in self.columns}

    def paths(self) -> Iterator[tuple[str, str]]:
        """(dotted path, name) of each column and of each field inside one, outer ones first.

        The elements of lists and the values of maps add nothing to a path.
        """
        for column in self.columns:
            yield from _paths(column.name, column.name, column.type)

    def own_spelling(self, path: str) -> str:
        """A dotted ``path`` as the columns spell it; as it is if they do not have it.

        A table's properties may name a column in another case.
        """
        alike = {each for each, _ in self.paths() if each.lower() == path.lower()}
        return alike.pop() if len(alike) == 1 else path


def put_last(by_lower_name: Mapping[str, T], names: Iterable[str]) -> list[T]:
    """What has the ``names`` at the end, the rest in its order before it."""
    found = dict(by_lower_name)
    last = [found.pop(name.lower()) for name in names if name.lower() in found]
    return [*found.values(), *last]


def type_at(types: Mapping[str, SparkType], path: str) -> SparkType | None:
    """The type of a column, or by a dotted ``path`` of a field of structs; None if unknown."""
    first, *inner = path.split(".")
    kind = types.get(first)
    for name in inner:
        fields = kind.get("fields", ()) if isinstance(kind, dict) else ()
        kind = next((each["type"] for each in fields if each["name"] == name), None)
    return kind


def _paths(path: str, name: str, kind: SparkType) -> Iterator[tuple[str, str]]:
    yield path, name
    yield from _inner_paths(path, kind)


def _inner_paths(path: str, kind: SparkType) -> Iterator[tuple[str, str]]:
    if isinstance(kind, str):
        return
    for part in ("elementType", "valueType"):
        yield from _inner_paths(path, kind.get(part, ""))
    for each in kind.get("fields", ()):
        yield from _paths(f"{path}.{each['name']}", each["name"], each["type"])
