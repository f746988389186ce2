"""Whether a record key of one column is written with the column's name: ``id:1`` or ``1``.

The Complex key generator has done both. By release: 0.14.0 and older name the column, 0.14.1 to
1.0.2 do not, 1.1 and newer do again, but below table version 9 only until
``hoodie.write.complex.keygen.new.encoding`` says otherwise. The properties of a table rarely tell,
so its files decide: a key of the other form would be a second row for the same thing.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.application.runtime import Runtime
from pyhudi.config import Operation, WriteOptions
from pyhudi.errors import ConfigError, UnsupportedTable
from pyhudi.format.table_config import KeyGenerator, TableConfig
from pyhudi.slices.files import BaseFile
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import FileSystemView
from pyhudi.writes.keys.key_samples import keys_at_ends, sampled

OPTION = "hoodie.write.complex.keygen.new.encoding"
#: what releases after 1.2.0 record: FIELD_PREFIXED or VALUE_ONLY
PROPERTY = "hoodie.table.complex.keygen.encoding"
ALWAYS_NAMED_VERSION = 9


def named_by_rule(config: TableConfig, options: WriteOptions) -> bool:
    """What Hudi 1.2.0 does for a table without files."""
    if len(config.record_key_fields) > 1 or config.key_generator is KeyGenerator.GLOBAL_DELETE:
        return True
    if config.key_generator is not KeyGenerator.COMPLEX:
        return False
    recorded = config.raw.get(PROPERTY, "").strip().upper()
    if recorded:
        return recorded != "VALUE_ONLY"
    return config.version >= ALWAYS_NAMED_VERSION or not options.value_only_keys


def named_in_table(
    runtime: Runtime,
    table: Table,
    view: FileSystemView,
    operation: Operation,
    options: WriteOptions,
) -> bool:
    """The form of new keys that matches the keys of the table.

    ``UnsupportedTable`` if the files hold both forms, ``ConfigError`` if the option contradicts
    them.
    """
    config = table.config
    rule = named_by_rule(config, options)
    single = len(config.record_key_fields) == 1
    if not single or config.key_generator is not KeyGenerator.COMPLEX:
        return rule
    forms = _forms(runtime, table, sampled(view.latest()))
    if len(forms) > 1 and operation not in (
        Operation.INSERT_OVERWRITE_TABLE,
        Operation.DELETE_PARTITION,
    ):
        name = config.record_key_fields[0]
        raise UnsupportedTable(
            f"The table {config.name} has record keys of two forms, '{name}:<value>' and "
            "'<value>', as releases of Apache Hudi with a complex key generator write them, so one "
            "key may have two rows. Nothing was written. Overwrite the table with its rows, one "
            "for each key, by insert_overwrite_table.",
            feature="record keys of two forms",
        )
    if len(forms) != 1:
        return rule
    (found,) = forms
    asked = options.value_only_keys
    if config.version < ALWAYS_NAMED_VERSION and asked is not None and asked is found:
        raise ConfigError(
            f"'{OPTION}' is '{str(asked).lower()}', but the keys in the table's files "
            f"{'name' if found else 'do not name'} their column. Leave the option out to follow "
            "the table.",
            key=OPTION,
        )
    return found


def _forms(runtime: Runtime, table: Table, files: Sequence[BaseFile]) -> set[bool]:
    """The forms of the keys at both ends of each file: True if they name the column."""
    prefix = f"{table.config.record_key_fields[0]}:"
    return {key.startswith(prefix) for _, key in keys_at_ends(runtime, table, files)}
