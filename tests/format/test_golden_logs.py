"""Facts of log files that docs/spec states: deletes, positions, the slice that a log belongs to."""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro

from pyhudi.format.filenames import parse_base_file_name, parse_log_file_name
from pyhudi.format.instants import Action, State, parse_instant
from pyhudi.format.log_blocks import BlockType, HeaderKey, LogBlock
from pyhudi.format.plans import CompactionOperation, parse_compaction_plan
from tests import golden_tables
from tests.format.test_golden_files import log_blocks
from tests.golden_tables import GoldenTable

# The first branches of the union of ordering values; the number is their place in it.
WRAPPERS = {
    "BooleanWrapper": "boolean",
    "IntWrapper": "int",
    "LongWrapper": "long",
    "FloatWrapper": "float",
    "DoubleWrapper": "double",
}
DELETES = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Deletes",
        "fields": [
            {
                "name": "deletes",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Delete",
                        "fields": [
                            {"name": "recordKey", "type": ["null", "string"]},
                            {"name": "partitionPath", "type": ["null", "string"]},
                            {
                                "name": "orderingVal",
                                "type": [
                                    "null",
                                    *(
                                        {
                                            "type": "record",
                                            "name": name,
                                            "fields": [{"name": "value", "type": kind}],
                                        }
                                        for name, kind in WRAPPERS.items()
                                    ),
                                ],
                            },
                        ],
                    },
                },
            }
        ],
    }
)


def deletes(block: LogBlock) -> list[dict[str, Any]]:
    record: Any = fastavro.schemaless_reader(
        BytesIO(block.content[8:]), DELETES, None, return_record_name=True
    )
    found: list[dict[str, Any]] = record["deletes"]
    return found


def test_a_delete_names_key_partition_and_ordering_value() -> None:
    values: Counter[str] = Counter()
    for table, path, block in log_blocks():
        if block.block_type is not BlockType.DELETE:
            continue
        for delete in deletes(block):
            assert delete["recordKey"]
            assert delete["partitionPath"] == path.rpartition("/")[0], table.name
            kind, value = delete["orderingVal"]
            values[f"{kind} {value['value'] if kind == 'IntWrapper' else ''}"] += 1

    # The operation `delete` writes the int 0, whatever the type of the ordering column.
    assert values["IntWrapper 0"] > 20
    assert set(values) <= {"IntWrapper 0", "LongWrapper "}


def cardinality(bitmap: bytes) -> int:
    """Positions in a portable 64-bit Roaring bitmap of one high word, without runs."""
    buckets, high = struct.unpack_from("<qi", bitmap)
    cookie, containers = struct.unpack_from("<ii", bitmap, 12)
    assert (buckets, high, cookie) == (1, 0, 12_346)
    described = struct.unpack_from(f"<{2 * containers}H", bitmap, 20)
    return sum(count + 1 for count in described[1::2])


def test_positions_are_of_each_record_of_a_block_in_a_base_file_of_its_group() -> None:
    checked = 0
    for table, path, block in log_blocks():
        if HeaderKey.RECORD_POSITIONS not in block.header:
            continue
        if block.block_type is BlockType.AVRO_DATA:
            (records,) = struct.unpack_from(">i", block.content, 4)
        else:
            records = len(deletes(block))
        positions = base64.b64decode(block.header[HeaderKey.RECORD_POSITIONS])
        assert cardinality(positions) == records, path

        log = parse_log_file_name(path.rpartition("/")[2])
        base = block.header[HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS]
        assert log is not None
        assert base in instants_of_group(table, log.file_id), path
        checked += 1
    assert checked > 20


def instants_of_group(table: GoldenTable, file_id: str) -> set[str]:
    names = (parse_base_file_name(path.rpartition("/")[2]) for path in table.files())
    return {name.instant for name in names if name and name.file_id == file_id}


def compactions() -> Iterator[tuple[GoldenTable, str, CompactionOperation]]:
    """(table, instant of the plan, what it does to one group)."""
    for table in golden_tables.ALL:
        layout, folder = (1, ".hoodie/") if table.version == 6 else (2, ".hoodie/timeline/")
        for path, data in table.files().items():
            instant = parse_instant(path.removeprefix(folder), layout)
            if instant and (instant.action, instant.state) == (Action.COMPACTION, State.REQUESTED):
                for operation in parse_compaction_plan(data, path).operations:
                    yield table, instant.time, operation


def test_a_compaction_takes_the_logs_of_a_slice_that_completed_before_it() -> None:
    seen: Counter[int] = Counter()
    for table, planned, operation in compactions():
        logs = [parse_log_file_name(name) for name in operation.delta_file_paths]
        base = operation.base_instant_time
        if operation.data_file_path is not None:
            name = parse_base_file_name(operation.data_file_path)
            assert name is not None
            assert (name.file_id, name.instant) == (operation.file_id, base), table.name
        completed = completions(table)
        assert logs
        for log in logs:
            assert log is not None
            assert log.file_id == operation.file_id
            if table.version == 6:
                assert log.instant == base, table.name
            elif log.instant in completed:  # else it is archived by now
                assert base <= completed[log.instant] < planned, table.name
            seen[table.version] += 1
    assert set(seen) == {6, 8, 9}


def completions(table: GoldenTable) -> dict[str, str]:
    """Requested to completion time of the instants of layout 2."""
    names = (path.removeprefix(".hoodie/timeline/") for path in table.files())
    found = (parse_instant(name, 2) for name in names)
    return {i.time: i.completion_time for i in found if i and i.completion_time}


def test_a_schema_of_a_block_is_avro_of_the_table_with_its_meta_columns() -> None:
    for table, path, block in log_blocks():
        schema = json.loads(block.header[HeaderKey.SCHEMA])
        assert schema["type"] == "record"
        if block.block_type is not BlockType.CDC_DATA:
            assert schema["name"] == f"{table.table}_record", path


def test_only_writers_beside_others_leave_heartbeats_which_are_empty() -> None:
    beats = {
        table.table: data
        for table in golden_tables.ALL
        for path, data in table.files().items()
        if path.startswith(".hoodie/.heartbeat/")
    }
    assert beats == {"cow_multiwriter": b""}
