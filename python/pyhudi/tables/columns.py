"""Which columns a table may have, and which column a user's name means.

The case of names does not count: by default Spark and Hive ignore it, so some readers could not
read a table with ``a`` and ``A``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from unicodedata import category

from pyspark.sql.types import DataType, StructField, StructType

from pyhudi.errors import ConfigError, SchemaConflict
from pyhudi.format.schemas import HIDDEN_COLUMNS, META_COLUMNS, type_text
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableConfig
from pyhudi.rows.spec import SOFT_DELETE
from pyhudi.services.slice_merging import delete_mark

#: begins the names of columns that a write adds to its rows
OF_WRITES: Final = "_pyhudi_"
#: a column of this name is the row's number to Spark's Parquet reader, whatever the file has
OF_READS: Final = "_tmp_metadata_row_index"
#: the role of a column by whose text rows are deletes
DELETES: Final = "the mark of deletes"


def check_names(schema: SparkSchema) -> None:
    """``SchemaConflict`` for a name that Avro, in which Hudi keeps schemas, does not allow, or that
    Hudi, pyhudi or Spark has for a column of its own, and for a mark of deletes of a wrong type."""
    kind = schema.types.get(SOFT_DELETE, "boolean")
    if kind != "boolean":
        raise SchemaConflict(
            f"Column '{SOFT_DELETE}' is {type_text(kind)}, but marks deleted rows, so it must be "
            "boolean. Cast it, or rename the column.",
            column=SOFT_DELETE,
            ours=kind,
            theirs="boolean",
            rule="mark of deletes",
        )
    for where, name in schema.paths():
        lower = name.lower()
        others = lower.startswith(OF_WRITES) or lower == OF_READS
        if others or (lower != name and lower in HIDDEN_COLUMNS):
            raise _not_storable(
                f"Column '{where}' has a name of a column that Hudi, pyhudi or Spark adds. "
                "Rename the column.",
                where,
            )
        if not _fits_avro(name):
            raise SchemaConflict(
                f"Column '{where}' has a name that Hudi cannot store. Names have letters without "
                "combining marks, digits and underscores, and do not begin with a digit. Rename "
                "the column.",
                column=where,
                ours=name,
                theirs=None,
                rule="column name",
            )


def roles_of(config: TableConfig) -> Mapping[str, Sequence[str]]:
    """The columns that the table's properties name, by what they are for."""
    mark = delete_mark(config)
    return {
        "the record key": config.record_key_fields,
        "the partition path": config.partition_fields,
        "the ordering of rows": config.ordering_fields,
        DELETES: () if mark is None else (mark[0],),
    }


def check_listed(schema: SparkSchema) -> None:
    """``SchemaConflict`` for a definition that lists some columns of Hudi's own.

    One that lists all is what Apache Hudi's SHOW CREATE TABLE gives: they may be left out.
    """
    own = {each.name: each.type for each in schema.columns if each.name in HIDDEN_COLUMNS}
    if own and not (own.keys() >= set(META_COLUMNS) and set(own.values()) == {"string"}):
        name = next(iter(own))
        raise _not_storable(
            f"Column '{name}' is one of Hudi's own, which each table has and hides, so it would "
            "not be a column of the new one. Leave it out, or give it another name.",
            name,
        )


def _fits_avro(name: str) -> bool:
    """Whether Avro of Java takes the name: it judges one unit of UTF-16 after the other."""
    kinds = ["L" if each == "_" else category(each) for each in name]
    fits = all(kind[0] == "L" or kind == "Nd" for kind in kinds)
    return fits and name != "" and kinds[0] != "Nd" and max(name) < "\U00010000"


def check_distinct(kind: DataType, column: str | None = None) -> None:
    """``SchemaConflict`` if a struct, at any depth, has no field or two with one name."""
    for part in ("elementType", "keyType", "valueType"):
        if hasattr(kind, part):
            check_distinct(getattr(kind, part), column)
    if not isinstance(kind, StructType):
        return
    if not kind.fields:
        what = "The data has no columns" if column is None else f"Column '{column}' has no fields"
        raise _not_storable(f"{what}, but a Hudi table needs at least one.", column)
    for field in kind.fields:
        where = field.name if column is None else f"{column}.{field.name}"
        same = [name for name in kind.fieldNames() if name.lower() == field.name.lower()]
        if len(same) > 1:
            raise _not_storable(
                f"Column '{where}' exists {len(same)} times ({', '.join(same)}): to other readers "
                "names that differ only in case are equal. Rename or drop all but one.",
                where,
            )
        check_distinct(field.dataType, where)


def _not_storable(message: str, column: str | None) -> SchemaConflict:
    return SchemaConflict(message, column=column, ours=column, theirs=None, rule="column name")


def find_field(schema: StructType, path: str, role: str) -> tuple[str, StructField]:
    """The field that a dotted ``path`` names, and the path in the field's own spelling.

    If no field has exactly this name, a single field that differs only in case is taken.
    ``ConfigError`` with the role if there is none.
    """
    node: DataType = schema
    names: list[str] = []
    found: StructField | None = None
    for name in path.split("."):
        fields = node.fields if isinstance(node, StructType) else []
        alike = [f for f in fields if f.name.lower() == name.lower()]
        exact = [f for f in alike if f.name == name]
        found = exact[0] if exact else alike[0] if len(alike) == 1 else None
        if found is None:
            have = ", ".join(schema.fieldNames())
            raise ConfigError(
                f"The {role} '{path}' is not a column of the data, which has: {have}. "
                f"Correct the option or add the column.",
                key=path,
            )
        names.append(found.name)
        node = found.dataType
    assert found is not None
    return ".".join(names), found


def own_spelling(schema: StructType, paths: Sequence[str], role: str) -> tuple[str, ...]:
    """Each path in the columns' spelling; ``:kind`` after a partition column stays.

    ``ConfigError`` if a path names no column, or two paths name the same.
    """
    found = []
    for path in paths:
        name, colon, kind = path.partition(":")
        found.append(find_field(schema, name, role)[0] + colon + kind)
    twice = _twice(found)
    if twice is not None:
        raise ConfigError(f"The {role} '{twice}' is named twice. Name it once.", key=twice)
    return tuple(found)


def _twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
