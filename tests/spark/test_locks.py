"""Writes under a lock that the options name: the lock is used, and bad options change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.servers.zookeeper import Zookeeper
from tests.spark.tables import Lake, rows_of
from tests.spark.test_sql import KEYED, create, folder_of

pytestmark = pytest.mark.spark

LOCK = "hoodie.write.lock."


@pytest.fixture
def by_zookeeper(zookeeper: Zookeeper, tmp_path: Path) -> dict[str, str]:
    return {
        LOCK + "provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
        LOCK + "zookeeper.url": zookeeper.address,
        LOCK + "zookeeper.base_path": "/hudi",
        LOCK + "zookeeper.lock_key": tmp_path.name,
        LOCK + "wait_time_ms": "1000",
    }


@pytest.fixture
def admin(zookeeper: Zookeeper) -> Iterator[KazooClient]:
    client = KazooClient(hosts=zookeeper.address)
    client.start(timeout=60)
    yield client
    client.stop()
    client.close()


def files_of(path: str) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in Path(path).rglob("*") if p.is_file()}


def test_a_write_waits_for_the_lock_in_zookeeper(
    lake: Lake, by_zookeeper: dict[str, str], admin: KazooClient, tmp_path: Path
) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"), **by_zookeeper)
    node = f"/hudi/{tmp_path.name}"
    assert admin.get_children(node) == []
    assert not (Path(table.path) / ".hoodie" / "lock").exists()

    held = admin.create(
        f"{node}/_c_0-lock-", b"application_id=other", ephemeral=True, sequence=True
    )
    with pytest.raises(AnalysisException, match=r"LOCK_TIMEOUT.*application_id=other"):
        table.write(rows_of(0, 3, "b", 2), **by_zookeeper)
    assert sorted(row[1] for row in table.rows().values()) == ["a0", "a1", "a2"]

    admin.delete(held)
    table.write(rows_of(0, 3, "c", 3), **by_zookeeper)
    assert sorted(row[1] for row in table.rows().values()) == ["c0", "c1", "c2"]
    assert admin.get_children(node) == []


BAD = [
    ({LOCK + "provider": "zookeeper"}, "zookeeper.url"),
    ({LOCK + "provider": "hive_metastore"}, "hivemetastore.database"),
    ({LOCK + "provider": "dynamodb"}, "dynamodb.table"),
    ({LOCK + "provider": "storage"}, "provider"),
    ({LOCK + "zookeeper.port": "high"}, "zookeeper.port"),
]


@pytest.mark.parametrize(("options", "key"), BAD)
def test_a_lock_that_cannot_be_made_leaves_a_table_as_it_was(
    lake: Lake, options: dict[str, str], key: str
) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    before = files_of(table.path)

    with pytest.raises(AnalysisException, match=f"CONFIG_ERROR.*{LOCK}{key}"):
        table.write(rows_of(0, 3, "b", 2), **options)

    assert files_of(table.path) == before


@pytest.mark.parametrize(("options", "key"), BAD)
def test_a_lock_that_cannot_be_made_leaves_no_new_table(
    lake: Lake, options: dict[str, str], key: str
) -> None:
    table = lake.table()

    with pytest.raises(AnalysisException, match=f"CONFIG_ERROR.*{LOCK}{key}"):
        table.write(rows_of(0, 3, "a"), **options)

    assert not Path(table.path).exists()


def last(locks: Path) -> int:
    """The highest number that was taken."""
    return max(int(file.name.removeprefix("lock").split(".")[0]) for file in locks.iterdir())


def test_every_statement_takes_the_lock_of_the_tables_properties(
    spark: SparkSession, name: str
) -> None:
    numbered = KEYED.replace(")", f", '{LOCK}provider' = 'numbered_files')")
    create(spark, name, numbered)
    locks = folder_of(spark, name) / ".hoodie" / "locks"
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x'), (2, 'b', 1, 'y'), (3, 'c', 1, 'z')")
    for statement in (
        f"update {name} set name = 'u' where id = 3",
        f"delete from {name} where dt = 'x'",
        f"alter table {name} drop partition (dt = 'y')",
        f"alter table {name} add columns (more int)",
        f"truncate table {name}",
    ):
        before = last(locks)
        spark.sql(statement)
        assert last(locks) > before, statement
    assert spark.table(name).count() == 0
    assert not (locks.parent / "lock").exists()
