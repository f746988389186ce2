"""The option table of the table lock: which lock, how long to wait for it, and its settings.

It has the form of the tables in ``option_tables``; ``WriteOptions.lock`` holds the resolved values.
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
    """The lock options of a write, resolved."""

    lock_provider: LockProvider | None = option(None, LOCK + "provider", W,
        "The lock that guards a commit, by default a file in the table. See the page on locks.")
    lock_wait_ms: int = option(120_000, LOCK + "wait_time_ms", W,
        "How long a commit waits for the table lock; a dead writer's lock lasts 30 to 76 s.")

    # ---- the lock file
    lock_path: str | None = option(None, LOCK + "filesystem.path", W,
        "Folder of the lock file, as for Hudi; the table's .hoodie by default.")
    lock_expire_minutes: int = option(0, LOCK + "filesystem.expire", W,
        "Age in minutes at which a lock file counts as abandoned; 0 means never.")

    # ---- ZooKeeper
    zookeeper_url: str | None = option(None, ZOOKEEPER + "url", W,
        "Servers, as host:port, separated by commas.")
    zookeeper_port: int | None = option(None, ZOOKEEPER + "port", W,
        "Port of the servers that are named without one.", minimum=1)
    zookeeper_base_path: str | None = option(None, ZOOKEEPER + "base_path", W,
        "Node that holds the locks; all writers of the table must use the same.")
    zookeeper_lock_key: str | None = option(None, ZOOKEEPER + "lock_key", W,
        "Name of the lock under the base path, by default the table's name.")
    zookeeper_session_timeout_ms: int = option(60_000, ZOOKEEPER + "session_timeout_ms", W,
        "How long a dead writer's lock lasts.", minimum=1)
    zookeeper_connection_timeout_ms: int = option(15_000, ZOOKEEPER + "connection_timeout_ms", W,
        "How long to wait for a connection.", minimum=1)

    # ---- Hive Metastore
    hive_database: str | None = option(None, HIVE + "database", W,
        "Database of the Hive table that is locked.")
    hive_table: str | None = option(None, HIVE + "table", W,
        "Hive table that is locked for this table; it need not exist.")
    hive_uris: tuple[str, ...] = option((), HIVE + "uris", W,
        "Addresses of the metastore, thrift://host:port; the first that answers is used.")

    # ---- DynamoDB
    dynamodb_table: str | None = option(None, DYNAMODB + "table", W,
        "DynamoDB table of the locks; pyhudi makes it if it does not exist.")
    dynamodb_partition_key: str | None = option(None, DYNAMODB + "partition_key", W,
        "Value of the attribute 'key' for this table's lock; the table's name by default.")
    dynamodb_region: str | None = option(None, DYNAMODB + "region", W,
        "AWS region of the DynamoDB table; by default AWS_REGION of the environment, or us-east-1.")
    dynamodb_endpoint_url: str | None = option(None, DYNAMODB + "endpoint_url", W,
        "Address of DynamoDB, if it is not the region's own.")
    dynamodb_billing_mode: BillingMode = option(
        BillingMode.PAY_PER_REQUEST, DYNAMODB + "billing_mode", W,
        "Billing of a DynamoDB table that pyhudi makes.")
    dynamodb_read_capacity: int = option(20, DYNAMODB + "read_capacity", W,
        "Read units of a PROVISIONED table that pyhudi makes.", minimum=1)
    dynamodb_write_capacity: int = option(10, DYNAMODB + "write_capacity", W,
        "Write units of a PROVISIONED table that pyhudi makes.", minimum=1)
    dynamodb_creation_timeout_ms: int = option(120_000, DYNAMODB + "table_creation_timeout", W,
        "How long to wait until a DynamoDB table that pyhudi makes is ready.", minimum=1)

    # ---- the storage's conditional puts
    storage_validity_s: int = option(60, STORAGE + "validity.timeout.secs", W,
        "How long a dead writer's lock lasts; Hudi's default is 300.", minimum=1)
# fmt: on


LOCK_TABLE = rows_of(LockOptions)
_KEYS = {row.name: row.key for row in LOCK_TABLE}

#: the settings that each provider needs
NEEDED: Mapping[LockProvider, tuple[str, ...]] = {
    LockProvider.ZOOKEEPER: ("zookeeper_url", "zookeeper_base_path"),
    LockProvider.ZOOKEEPER_IMPLICIT: ("zookeeper_url",),
    LockProvider.HIVE_METASTORE: ("hive_database", "hive_table", "hive_uris"),
    LockProvider.DYNAMODB: ("dynamodb_table",),
    LockProvider.DYNAMODB_IMPLICIT: ("dynamodb_table",),
}


def check_lock_options(said: LockOptions, many_writers: bool) -> None:
    """Refuse settings from which no lock can be made: ``ConfigError`` with ``key``. No I/O."""
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
            "The in-process lock does not exclude writers of other processes, so it cannot guard "
            "a table with several writers. Set hoodie.write.lock.provider to a lock that all of "
            "them reach, or leave it out to use the table's lock file.",
            key=_KEYS["lock_provider"],
        )
    if provider is LockProvider.ZOOKEEPER:
        _check_form("zookeeper_base_path", said.zookeeper_base_path, r"/.*", "/hudi/locks")
    for uri in said.hive_uris if provider is LockProvider.HIVE_METASTORE else ():
        _check_form("hive_uris", uri, r"thrift://[^/\s:]+:\d+", "thrift://metastore:9083")


def _check_form(name: str, value: str | None, pattern: str, like: str) -> None:
    if not re.fullmatch(pattern, value or ""):
        raise ConfigError(
            f"'{_KEYS[name]}' is '{value}', but it must look like '{like}'. Correct the value.",
            key=_KEYS[name],
        )
