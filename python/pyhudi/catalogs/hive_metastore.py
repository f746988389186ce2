"""Entries of Hudi tables in a Hive Metastore, by its Thrift service.

Spark's own client does not suffice: it loads the input format of each table that it creates or
alters, a class of Apache Hudi's bundle. Spark still reads and drops entries, which needs no class.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyhudi.catalogs.hudi_entry import (
    INPUT_FORMAT,
    OUTPUT_FORMAT,
    SERDE,
    EntryColumns,
    EntryName,
    HiveColumn,
    PartitionChanges,
    Values,
    is_schema_property,
    partition_name,
)
from pyhudi.errors import SetupError, StorageError, TableExists, TableNotFound
from pyhudi.format.keys import unescape_path
from pyhudi.hive_thrift import connect

try:
    from pymetastore.hive_metastore import ttypes
    from thrift.Thrift import TException
except ImportError:
    if not TYPE_CHECKING:
        ttypes = None

_ANSWER_S: Final = 60
#: partitions in one request
_BATCH: Final = 1000
#: without it the metastore would list the table's folders and count their files
_UNCOUNTED: Final = {"DO_NOT_UPDATE_STATS": "true"}
_ALL: Final = -1


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A table to be registered; ``location`` is a URI; ``properties`` do not hold the columns."""

    name: EntryName
    location: str
    columns: EntryColumns
    properties: Mapping[str, str]
    managed: bool


def register(entry: NewEntry) -> None:
    """Make the entry; ``TableExists`` if the name is taken."""
    storage = _storage(entry.columns.data, entry.location)
    external = {} if entry.managed else {"EXTERNAL": "TRUE"}
    made = ttypes.Table(
        tableName=entry.name.table,
        dbName=entry.name.database,
        owner=_user(),
        sd=storage,
        partitionKeys=_fields(entry.columns.partition),
        parameters={
            **entry.properties,
            **entry.columns.properties,
            **external,
            "path": entry.location,
        },
        tableType="MANAGED_TABLE" if entry.managed else "EXTERNAL_TABLE",
    )
    with _client(entry.name) as client:
        client.create_table(made)


def forget(name: EntryName) -> None:
    """Remove the entry, not the table's files; no error if there is no such entry."""
    with _client(name) as client:
        try:
            client.drop_table(name.database, name.table, False)
        except ttypes.NoSuchObjectException:
            return


def properties_of(name: EntryName) -> dict[str, str]:
    """All properties of the entry, Spark's included."""
    with _client(name) as client:
        return dict(client.get_table(name.database, name.table).parameters or {})


def change_properties(
    name: EntryName, given: Mapping[str, str], dropped: Sequence[str] = ()
) -> None:
    """Set and remove properties of the entry; the rest stays as it is."""

    def change(entry: Any) -> None:
        kept = {key: text for key, text in entry.parameters.items() if key not in dropped}
        entry.parameters = {**kept, **given}

    with _client(name) as client:
        _alter(client, name, change)


def change_columns(name: EntryName, columns: EntryColumns) -> bool:
    """Give the entry and its partitions these columns.

    False if the metastore refuses them: the type at some position is not a wider form of the old
    type there (``hive.metastore.disallow.incompatible.col.type.changes``). Then only Spark's form
    of the columns is changed, which Spark sessions read.
    """

    def describe(entry: Any) -> None:
        kept = {k: text for k, text in entry.parameters.items() if not is_schema_property(k)}
        entry.parameters = {**kept, **columns.properties}

    def change(entry: Any) -> None:
        describe(entry)
        entry.sd.cols = _fields(columns.data)

    with _client(name) as client:
        try:
            _alter(client, name, change, cascade=bool(columns.partition))
            return True
        except ttypes.InvalidOperationException:
            _alter(client, name, describe)
            return False


def rename(name: EntryName, table: str) -> None:
    """Rename the entry; the metastore moves the folder of a managed table."""

    def change(entry: Any) -> None:
        entry.tableName = table

    def locate(entry: Any) -> None:
        entry.parameters["path"] = entry.sd.location
        entry.sd.serdeInfo.parameters["path"] = entry.sd.location

    with _client(name) as client:
        _alter(client, name, change)
        _alter(client, EntryName(name.uris, name.database, table), locate)


def partitions_of(name: EntryName) -> frozenset[Values]:
    """The values of all registered partitions."""
    with _client(name) as client:
        names = client.get_partition_names(name.database, name.table, _ALL)
    return frozenset(
        tuple(unescape_path(part.partition("=")[2]) for part in one.split("/")) for one in names
    )


def change_partitions(name: EntryName, changes: PartitionChanges) -> None:
    """Add and drop partitions that are not yet added or dropped; their files stay."""
    with _client(name) as client:
        table = client.get_table(name.database, name.table)
        columns = [field.name for field in table.partitionKeys]
        added = [_partition(table, values, path) for values, path in changes.add.items()]
        for batch in _batches(added):
            client.add_partitions_req(
                ttypes.AddPartitionsRequest(
                    name.database, name.table, batch, ifNotExists=True, needResult=False
                )
            )
        for batch in _batches([partition_name(columns, one) for one in sorted(changes.drop)]):
            client.drop_partitions_req(
                ttypes.DropPartitionsRequest(
                    name.database,
                    name.table,
                    ttypes.RequestPartsSpec(names=batch),
                    deleteData=False,
                    ifExists=True,
                    needResult=False,
                )
            )


def _partition(table: Any, values: Values, path: str) -> Any:
    like = table.sd
    storage = _storage((), f"{like.location}/{path}")
    storage.cols, storage.serdeInfo.parameters = like.cols, dict(like.serdeInfo.parameters)
    storage.inputFormat, storage.outputFormat = like.inputFormat, like.outputFormat
    return ttypes.Partition(
        values=list(values),
        dbName=table.dbName,
        tableName=table.tableName,
        sd=storage,
        parameters={},
    )


def _batches(items: Sequence[Any]) -> Iterator[list[Any]]:
    return (list(items[at : at + _BATCH]) for at in range(0, len(items), _BATCH))


def _storage(columns: Sequence[HiveColumn], location: str) -> Any:
    serde = ttypes.SerDeInfo(
        serializationLib=SERDE, parameters={"serialization.format": "1", "path": location}
    )
    return ttypes.StorageDescriptor(
        cols=_fields(columns),
        location=location,
        inputFormat=INPUT_FORMAT,
        outputFormat=OUTPUT_FORMAT,
        compressed=False,
        numBuckets=-1,
        serdeInfo=serde,
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def _fields(columns: Sequence[HiveColumn]) -> list[Any]:
    return [ttypes.FieldSchema(one.name, one.type, one.comment) for one in columns]


def _alter(
    client: Any, name: EntryName, change: Callable[[Any], None], cascade: bool = False
) -> None:
    """Change the entry; with ``cascade`` its partitions also get its columns."""
    entry = client.get_table(name.database, name.table)
    change(entry)
    told = {**_UNCOUNTED, "CASCADE": "true"} if cascade else dict(_UNCOUNTED)
    client.alter_table_with_environment_context(
        name.database, name.table, entry, ttypes.EnvironmentContext(told)
    )


@contextmanager
def _client(name: EntryName) -> Iterator[Any]:
    """A client for a few calls; its errors become pyhudi's."""
    if ttypes is None:
        raise SetupError(
            "Tables in a Hive Metastore need the package pymetastore. Install it: pip install "
            "'pyhudi[hive]'."
        )
    transport, client = _connected(name)
    try:
        yield client
    except ttypes.AlreadyExistsException as e:
        raise TableExists(
            f"The Hive Metastore has {name} already. Drop it first, or choose another name.",
            path=str(name),
        ) from e
    except ttypes.NoSuchObjectException as e:
        raise TableNotFound(
            f"The Hive Metastore has no {name} any more. Another session dropped or renamed it.",
            path=str(name),
        ) from e
    except (TException, OSError) as e:
        raise _failed(name, str(getattr(e, "message", None) or e)) from e
    finally:
        transport.close()


def _connected(name: EntryName) -> tuple[Any, Any]:
    try:
        return connect(name.uris, _ANSWER_S, lambda client: client.set_ugi(_user(), []))
    except ConnectionError as error:
        raise _failed(name, str(error)) from error


def _user() -> str:
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


def _failed(name: EntryName, reason: str) -> StorageError:
    return StorageError(
        f"The Hive Metastore {','.join(name.uris)} could not serve a request for {name}: {reason}. "
        "Check that it is up and that hive.metastore.uris is right.",
        path=str(name),
    )
