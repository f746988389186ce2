"""Lists of facts that print as a table in terminals and notebooks, and convert to DataFrames."""

from __future__ import annotations

import dataclasses
import html
import types
import typing
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyhudi.text_table import NOTHING, Cell, cell_text, table_text

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: in a field's metadata, False keeps it from being a column
COLUMN = "column"
#: the largest number of rows that are shown; the list has all of them
SHOWN = 40

T = TypeVar("T")


class ListingName(Enum):
    """What SQL can read after a table's name, as in ``trips.history``."""

    HISTORY = "history"
    FILES = "files"
    PARTITIONS = "partitions"
    HEALTH = "health"
    ADVICE = "advice"


class Listing(list[T], Generic[T]):
    """A list of entries of one dataclass, whose fields are the columns of the other forms."""

    def __init__(self, kind: type[T], entries: Iterable[T] = ()) -> None:
        super().__init__(entries)
        self._kind = kind

    @property
    def columns(self) -> list[str]:
        """The fields' names."""
        fields = dataclasses.fields(self._kind)  # type: ignore[arg-type]
        return [field.name for field in fields if field.metadata.get(COLUMN, True)]

    def records(self) -> list[dict[str, Any]]:
        """Each entry as a dict of plain values."""
        return [self._record(each) for each in self]

    def _record(self, entry: T) -> dict[str, Any]:
        return {name: _plain(getattr(entry, name)) for name in self.columns}

    def _shown(self) -> list[list[Cell]]:
        return [[shown_cell(value) for value in row] for row in self.rows()[:SHOWN]]

    def to_arrow(self) -> pa.Table:
        """An Arrow table; the fields give its types, even if the list is empty."""
        import pyarrow

        hints = typing.get_type_hints(self._kind)
        schema = pyarrow.schema([(name, _arrow_type(hints[name])) for name in self.columns])
        return pyarrow.Table.from_pylist(self.records(), schema)

    def to_pandas(self) -> pd.DataFrame:
        """A pandas DataFrame; needs the package pandas."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """A Spark DataFrame, to be queried or joined."""
        return spark.createDataFrame([tuple(row) for row in self.rows()], self.ddl())

    def ddl(self) -> str:
        """The columns and their types as Spark's DDL."""
        types = self.to_arrow().schema
        return ", ".join(f"`{field.name}` {_SPARK[str(field.type)]}" for field in types)

    def rows(self) -> list[list[Any]]:
        """Each entry as a list of plain values, in the order of ``columns``."""
        return [list(self._record(each).values()) for each in self]

    def __repr__(self) -> str:
        shown = table_text(self.columns, self._shown())
        return shown if len(self) <= SHOWN else f"{shown}\n... {len(self) - SHOWN} more"

    def _repr_html_(self) -> str:
        more = f"<p>... {len(self) - SHOWN} more</p>" if len(self) > SHOWN else ""
        return html_table(self.columns, self._shown()) + more


def html_table(head: Iterable[str], rows: Iterable[Iterable[Cell]]) -> str:
    """A table as notebooks show it; every text is escaped."""

    def line(tag: str, cells: Iterable[Cell]) -> str:
        texts = (html.escape(cell_text(cell)) for cell in cells)
        return "<tr>" + "".join(f"<{tag}>{text}</{tag}>" for text in texts) + "</tr>"

    return f"<table>{line('th', head)}{''.join(line('td', row) for row in rows)}</table>"


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def shown_cell(value: Any) -> Cell:
    """A plain value as a cell of a table."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else str(value)


_SPARK = {"string": "string", "int64": "long", "bool": "boolean", "double": "double"}


def _arrow_type(hint: Any) -> pa.DataType:
    import pyarrow

    if isinstance(hint, types.UnionType):  # with None: columns may hold nulls anyway
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    if hint is bool:
        return pyarrow.bool_()
    if hint is float:
        return pyarrow.float64()
    return pyarrow.int64() if hint is int else pyarrow.string()
