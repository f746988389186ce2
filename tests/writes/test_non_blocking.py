"""Which writes may be writes without coordination."""

from __future__ import annotations

import pytest

from pyhudi.config import Operation, resolve_write
from pyhudi.errors import ConfigError
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode, TableConfig, parse_table_config
from pyhudi.writes.non_blocking import is_ordered, refuse_coordination

MODE = "hoodie.write.concurrency.mode"
OPTIONS = {
    MODE: "non_blocking_concurrency_control",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
}


def table(
    version: int = 9,
    kind: str = "MERGE_ON_READ",
    merge: MergeMode = MergeMode.EVENT_TIME_ORDERING,
    ordering: tuple[str, ...] = ("ts",),
) -> TableConfig:
    made = new_table_properties(
        name="t",
        version=version,
        record_key_fields=["key"],
        partition_fields=["p"],
        ordering_fields=ordering,
        merge_mode=merge,
        key_generator=KeyGenerator.SIMPLE,
        extra={"hoodie.table.type": kind},
    )
    return parse_table_config(render_properties(made), "p")


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize(
    "operation", [Operation.UPSERT, Operation.INSERT, Operation.BULK_INSERT, Operation.DELETE]
)
def test_all_that_adds_rows_or_deletes_keys_may_be_one(version: int, operation: Operation) -> None:
    refuse_coordination(table(version), resolve_write(OPTIONS), operation)


@pytest.mark.parametrize(
    ("config", "options", "operation", "told"),
    [
        (table(kind="COPY_ON_WRITE"), {}, Operation.UPSERT, "copy-on-write"),
        (table(6), {}, Operation.UPSERT, "version 6"),
        (table(), {"hoodie.index.type": "SIMPLE"}, Operation.UPSERT, "SIMPLE"),
        (table(), {"hoodie.index.type": "GLOBAL_BLOOM"}, Operation.UPSERT, "GLOBAL_BLOOM"),
        (table(), {}, Operation.INSERT_OVERWRITE, "is insert_overwrite,"),
        (table(), {}, Operation.INSERT_OVERWRITE_TABLE, "insert_overwrite_table"),
        (table(), {}, Operation.DELETE_PARTITION, "delete_partition"),
    ],
)
def test_what_cannot_be_one_is_refused_with_what_to_do(
    config: TableConfig, options: dict[str, str], operation: Operation, told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        refuse_coordination(config, resolve_write(OPTIONS | options), operation)
    assert refused.value.facts["key"] == MODE
    assert "Nothing was written." in str(refused.value)
    others = OPTIONS | options | {MODE: "optimistic_concurrency_control"}
    refuse_coordination(config, resolve_write(others), operation)


def test_options_that_contradict_it_are_refused() -> None:
    rule = {"hoodie.write.lock.conflict.resolution.strategy": "partition"}
    with pytest.raises(ConfigError, match="add to the same file groups"):
        resolve_write(OPTIONS | rule)
    with pytest.raises(ConfigError, match=r"hoodie.index.bucket.engine"):
        resolve_write(OPTIONS | {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"})
    pessimistic = {"pyhudi.write.concurrency.mode": "PESSIMISTIC_CONCURRENCY_CONTROL"}
    with pytest.raises(ConfigError, match=MODE):
        resolve_write(OPTIONS, {**table().raw, **pessimistic})


def test_the_order_of_logs_decides_by_commit_time_and_for_deletes() -> None:
    assert not is_ordered(table(), Operation.UPSERT)
    assert is_ordered(table(), Operation.DELETE)
    assert is_ordered(table(merge=MergeMode.COMMIT_TIME_ORDERING), Operation.UPSERT)
    assert is_ordered(table(ordering=()), Operation.UPSERT)
