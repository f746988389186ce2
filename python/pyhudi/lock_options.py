"""The option table of the table lock: which one, how long to wait for it, and what each is told.

Read as the tables of ``option_tables``; a write has them resolved in ``WriteOptions.lock``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.choices import BillingMode, LockProvider
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
        "Who guards the commit; by default the table's own lock file.")
    lock_wait_ms: int = option(60_000, LOCK + "wait_time_ms", W,
        "How long a commit waits for the table lock.")
    lock_heartbeat_ms: int = option(60_000, LOCK + "heartbeat_interval_ms", W,
        "Hive Metastore: how often the lock is kept alive there.", minimum=1)

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
        "Node under which the lock is; all writers of the table must say the same.")
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
        "Thrift addresses of the metastore.")

    # ---- DynamoDB
    dynamodb_table: str | None = option(None, DYNAMODB + "table", W,
        "DynamoDB table of the locks; made if it is not there.")
    dynamodb_partition_key: str | None = option(None, DYNAMODB + "partition_key", W,
        "Value of the attribute 'key' that is this table's lock, by default the table's name.")
    dynamodb_region: str = option("us-east-1", DYNAMODB + "region", W,
        "AWS region of the DynamoDB table.")
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
    storage_validity_s: int = option(300, STORAGE + "validity.timeout.secs", W,
        "How long the lock of a writer that died outlives it.", minimum=1)
    storage_renew_s: int = option(30, STORAGE + "renew.interval.secs", W,
        "How often the lock is renewed while it is held.", minimum=1)
# fmt: on


LOCK_TABLE = rows_of(LockOptions)
