"""The columns of an identified schema while they change, and the parts inside them by their paths.

A path is the names down to a part; ``element``, ``key`` and ``value`` are those of lists and maps.
Others decide what may change. No id is given twice, and the schema that was given stays as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyhudi.format.column_ids import ID, Identified, all_ids, with_new_ids
from pyhudi.format.schemas import HIDDEN_COLUMNS
from pyhudi.format.spark_schema import Column, put_last

Json = Any
Fields = list[dict[str, Json]]
Path = tuple[str, ...]

#: what says that a part may be null, by where its type is
_NULLABLE = {"type": "nullable", "elementType": "containsNull", "valueType": "valueContainsNull"}


@dataclass(frozen=True, slots=True)
class Part:
    """A column or something inside one: ``_holder[_key]`` is its type.

    A column's or a field's holder is itself, and ``_siblings`` are the fields beside it.
    """

    _holder: dict[str, Json]
    _key: str
    _siblings: Fields | None = None

    @property
    def type(self) -> Json:
        """The type with its ids."""
        return self._holder[self._key]

    @property
    def has_name(self) -> bool:
        """Whether it is a column or a field; parts of lists and maps have no names of their own."""
        return self._siblings is not None

    @property
    def is_map_key(self) -> bool:
        """Whether it is the key of a map."""
        return self._key == "keyType"

    @property
    def is_alone(self) -> bool:
        """Whether a table or struct has no other column."""
        return len(self._beside()) == 0

    def has_beside(self, name: str) -> bool:
        """Whether another column or field beside it has this name, in any case."""
        return any(field["name"].lower() == name.lower() for field in self._beside())

    def retype(self, kind: Json) -> None:
        """Give it another type, which has no parts."""
        self._holder[self._key] = kind

    def loosen(self) -> None:
        """Let it be null."""
        self._holder[_NULLABLE[self._key]] = True

    def rename(self, name: str) -> None:
        """Give a column or field another name."""
        self._holder["name"] = name

    def drop(self) -> None:
        """Take a column or field away."""
        self._fields().remove(self._holder)

    def move(self, before: str) -> None:
        """Put a column or field behind the one named ``before``, which is beside it; "": first."""
        others = self._beside()
        names = [field["name"].lower() for field in others]
        at = names.index(before.lower()) + 1 if before else 0
        self._fields()[:] = [*others[:at], self._holder, *others[at:]]

    def _beside(self) -> Fields:
        return [field for field in self._fields() if field is not self._holder]

    def _fields(self) -> Fields:
        assert self._siblings is not None, "parts of lists and maps stand alone"
        return self._siblings


class ColumnTree:
    """The user's columns of an identified schema; ids from ``next_id`` on are free."""

    def __init__(self, columns: Identified, next_id: int) -> None:
        self._meta = [f for f in columns["fields"] if f["name"] in HIDDEN_COLUMNS]
        own = (f for f in columns["fields"] if f["name"] not in HIDDEN_COLUMNS)
        self._fields: Fields = [copy.deepcopy(field) for field in own]
        self._next_id = next_id

    def part(self, path: Path) -> Part | None:
        """What a path names; None if there is no such thing."""
        return _find(self._fields, path)

    def has_struct(self, path: Path) -> bool:
        """Whether a path names a struct; the table itself is the one at the empty path."""
        return self._struct(path) is not None

    def add(self, path: Path, column: Column) -> None:
        """Put a nullable column at the end of the table, or a field at that of a struct."""
        fields = self._struct(path)
        assert fields is not None, f"there is no struct at {path}"
        own = self._next_id
        numbered = with_new_ids(column.type, own + 1)
        self._next_id = max((own, *all_ids(numbered))) + 1
        added = {"name": column.name, "type": numbered, "nullable": True, "metadata": {ID: own}}
        fields.append(added)

    def columns(self, last: Iterable[str]) -> Identified:
        """The schema as it is now, meta columns in front and the columns of ``last`` at the end."""
        by_lower_name = {field["name"].lower(): field for field in self._fields}
        return {"type": "struct", "fields": [*self._meta, *put_last(by_lower_name, last)]}

    def _struct(self, path: Path) -> Fields | None:
        if not path:
            return self._fields
        part = self.part(path)
        return None if part is None or isinstance(part.type, str) else part.type.get("fields")


def _find(fields: Fields, path: Path) -> Part | None:
    field = next((f for f in fields if f["name"].lower() == path[0].lower()), None)
    if field is None:
        return None
    return _inside(Part(field, "type", fields), path[1:])


def _inside(part: Part, path: Path) -> Part | None:
    if not path:
        return part
    kind, key = part.type, f"{path[0].lower()}Type"
    if isinstance(kind, str):
        return None
    if kind["type"] == "struct":
        return _find(kind["fields"], path)
    return _inside(Part(kind, key), path[1:]) if key in kind else None
