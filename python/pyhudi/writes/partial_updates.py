"""Writes to tables of partial updates: which of them find no row to take values from.

Such a row takes the values that it lacks from the one that it beats, where the two meet: in their
file group (``rows/filled.py``).
"""

from __future__ import annotations

from pyhudi.config import Operation, WriteOptions
from pyhudi.errors import ConfigError
from pyhudi.format.table_config import TableConfig
from pyhudi.index.kinds import kind_of
from pyhudi.payloads import PARTIAL_UPDATE
from pyhudi.services.slice_merging import filled
from pyhudi.writes.orders import INSERTS, combining


def refuse_unfilled(config: TableConfig, options: WriteOptions, operation: Operation) -> None:
    """``ConfigError`` if rows of one key would meet elsewhere than in their file group."""
    if filled(config) is None:
        return
    if operation is Operation.UPSERT and kind_of(options).everywhere:
        key, value = "hoodie.index.type", options.index_type.value
        why = "a row may move to another partition, where it finds no row to take values from"
        instead = "Use an index that looks keys up in their partition, such as SIMPLE"
    elif operation in INSERTS and combining(config, options, operation):
        key, value = "hoodie.combine.before.insert", "true"
        why = "only an upsert combines rows value by value"
        instead = "Leave it out, or upsert the rows"
    else:
        return
    raise ConfigError(
        f"'{key}' is {value}, but the table has {PARTIAL_UPDATE}={config.raw[PARTIAL_UPDATE]}: "
        f"{why}. Nothing was written. {instead}.",
        key=key,
    )
