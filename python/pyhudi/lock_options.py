"""The option table of the table lock: which one, how long to wait for it, and what each is told.

Read as the tables of ``option_tables``; a write has them resolved in ``WriteOptions.lock``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyhudi.choices import BillingMode, LockProvider
from pyhudi.errors import ConfigError
from pyhudi.option import Scope, option, rows_of

W = Scope.WRITER
LOCK = "hoodie.write.lock."
ZOOKEEPER = LOCK + "zookeeper."
HIVE = LOCK + "hivemetastore."
DYNAMODB = LOCK + "dynamodb."
STORAGE = LOCK + "storage."


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class LockOptions:
    """What a write may say about the table lock, resolved."""

    lock_provider: LockProvider | None = option(None, LOCK + "provider", W,
        "Who guards the commit; by default the table's own lock file. See the page on locks.")
    lock_wait_ms: int = option(120_000, LOCK + "wait_time_ms", W,
        "How long a commit waits for the table lock; what a dead writer holds lasts 30 to 76 s.")

    # ---- the lock file
    lock_path: str | None = option(None, LOCK + "filesystem.path", W,
        "Folder of the lock file, as for Hudi; the table's .hoodie by default.")
    lock_expire_minutes: int = option(0, LOCK + "filesystem.expire", W,
        "Age at which a lock file counts as left behind; 0 is never.")

    # ---- ZooKeeper
    zookeeper_url: str | None = option(None, ZOOKEEPER + "url", W,
        "Servers, as host:port with commas between.")
    zookeeper_port: int | None = option(None, ZOOKEEPER + "port", W,
        "Port of the servers that are named without one.", minimum=1)
    zookeeper_base_path: str | None = option(None, ZOOKEEPER + "base_path", W,
        "Node under which the locks are; all writers of the table must say the same.")
    zookeeper_lock_key: str | None = option(None, ZOOKEEPER + "lock_key", W,
        "Name of the lock under the base path, by default the table's name.")
    zookeeper_session_timeout_ms: int = option(60_000, ZOOKEEPER + "session_timeout_ms", W,
        "How long the lock of a writer that died outlives it.", minimum=1)
    zookeeper_connection_timeout_ms: int = option(15_000, ZOOKEEPER + "connection_timeout_ms", W,
        "How long to wait for a connection.", minimum=1)

    # ---- Hive Metastore
    hive_database: str | None = option(None, HIVE + "database", W,
        "Database of the Hive table that is locked.")
    hive_table: str | None = option(None, HIVE + "table", W,
        "Hive table that is locked in this table's stead; it need not exist.")
    hive_uris: tuple[str, ...] = option((), HIVE + "uris", W,
        "Addresses of the metastore, thrift://host:port; the first that answers is taken.")

    # ---- DynamoDB
    dynamodb_table: str | None = option(None, DYNAMODB + "table", W,
        "DynamoDB table of the locks; made if it is not there.")
    dynamodb_partition_key: str | None = option(None, DYNAMODB + "partition_key", W,
        "Value of the attribute 'key' that is this table's lock, by default the table's name.")
    dynamodb_region: str | None = option(None, DYNAMODB + "region", W,
        "AWS region of the DynamoDB table: AWS_REGION of the environment, or us-east-1.")
    dynamodb_endpoint_url: str | None = option(None, DYNAMODB + "endpoint_url", W,
        "Address of DynamoDB where it is not the region's own.")
    dynamodb_billing_mode: BillingMode = option(
        BillingMode.PAY_PER_REQUEST, DYNAMODB + "billing_mode", W,
        "How a DynamoDB table that is made here is billed.")
    dynamodb_read_capacity: int = option(20, DYNAMODB + "read_capacity", W,
        "Read units of a PROVISIONED table that is made here.", minimum=1)
    dynamodb_write_capacity: int = option(10, DYNAMODB + "write_capacity", W,
        "Write units of a PROVISIONED table that is made here.", minimum=1)
    dynamodb_creation_timeout_ms: int = option(120_000, DYNAMODB + "table_creation_timeout", W,
        "How long to wait for a DynamoDB table that is made here.", minimum=1)

    # ---- the storage's conditional puts
    storage_validity_s: int = option(60, STORAGE + "validity.timeout.secs", W,
        "How long the lock of a writer that died outlives it; Hudi's default is 300.", minimum=1)
# fmt: on


LOCK_TABLE = rows_of(LockOptions)
_KEYS = {row.name: row.key for row in LOCK_TABLE}

#: what each provider cannot do without
NEEDED: Mapping[LockProvider, tuple[str, ...]] = {
    LockProvider.ZOOKEEPER: ("zookeeper_url", "zookeeper_base_path"),
    LockProvider.ZOOKEEPER_IMPLICIT: ("zookeeper_url",),
    LockProvider.HIVE_METASTORE: ("hive_database", "hive_table", "hive_uris"),
    LockProvider.DYNAMODB: ("dynamodb_table",),
    LockProvider.DYNAMODB_IMPLICIT: ("dynamodb_table",),
}


def check_lock_options(said: LockOptions, many_writers: bool) -> None:
    """Refuse what no lock can be made of; ``ConfigError`` with ``key``. Asks no service."""
    provider = said.lock_provider
    if provider is None:
        return
    for name in NEEDED.get(provider, ()):
        if not getattr(said, name):
            raise ConfigError(
                f"The lock provider '{provider.value}' needs '{_KEYS[name]}', which is not set. "
                "Set it to what all writers of the table use.",
                key=_KEYS[name],
            )
    if provider is LockProvider.IN_PROCESS and many_writers:
        raise ConfigError(
            "The in-process lock keeps out no writer of another process, so it cannot guard a "
            "table with several. Set hoodie.write.lock.provider to one that all of them reach, or "
            "leave it out for the table's own lock file.",
            key=_KEYS["lock_provider"],
        )
    if provider is LockProvider.ZOOKEEPER:
        _check_form("zookeeper_base_path", said.zookeeper_base_path, r"/.*", "/hudi/locks")
    for uri in said.hive_uris if provider is LockProvider.HIVE_METASTORE else ():
        _check_form("hive_uris", uri, r"thrift://[^/\s:]+:\d+", "thrift://metastore:9083")


def _check_form(name: str, value: str | None, pattern: str, like: str) -> None:
    if not re.fullmatch(pattern, value or ""):
        raise ConfigError(
            f"'{_KEYS[name]}' is '{value}', but it must be like '{like}'. Correct the value.",
            key=_KEYS[name],
        )
