"""Tables whose files lack the partition columns: a read would give rows without them, or nulls."""

from __future__ import annotations

from pyhudi.errors import UnsupportedTable
from pyhudi.format.table_config import TableConfig


def refuse_dropped_columns(config: TableConfig) -> None:
    """``UnsupportedTable`` for a table that drops its partition columns from its files.

    Apache Hudi makes their values of the partitions' paths.
    """
    if config.drop_partition_columns and config.partition_fields:
        raise UnsupportedTable(
            f"The table {config.name} drops its partition columns "
            f"({', '.join(config.partition_fields)}) from its files, and pyhudi does not make them "
            "of paths: rows would come without them. Read it with Apache Hudi, or write it with "
            "that to a table without hoodie.datasource.write.drop.partition.columns.",
            feature="reading tables that drop their partition columns",
        )
