"""Facts of data files, log files and hidden folders that docs/spec states, on tables of Hudi's."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.filenames import parse_base_file_name, parse_log_file_name
from pyhudi.format.instants import State, parse_instant
from pyhudi.format.log_blocks import BlockType, HeaderKey, LogBlock, avro_records, read_blocks
from pyhudi.format.properties import parse_properties
from tests import golden_tables
from tests.golden_tables import GoldenTable

META_COLUMNS = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]
METADATA = ".hoodie/metadata/"
POSITIONS = {
    HeaderKey.RECORD_POSITIONS,
    HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS,
}


def base_files() -> Iterator[tuple[GoldenTable, str, pq.ParquetFile]]:
    for table in golden_tables.ALL:
        for path, data in table.files().items():
            name = path.rpartition("/")[2]
            if data and not path.startswith(".hoodie/") and parse_base_file_name(name):
                yield table, path, pq.ParquetFile(pa.BufferReader(data))


def log_files() -> Iterator[tuple[GoldenTable, str, bytes]]:
    for table in golden_tables.ALL:
        for path, data in table.files().items():
            name = path.rpartition("/")[2]
            if not path.startswith(".hoodie/") and parse_log_file_name(name):
                yield table, path, data


def log_blocks() -> Iterator[tuple[GoldenTable, str, LogBlock]]:
    for table, path, data in log_files():
        for block in read_blocks(data):
            yield table, path, block


def test_a_base_file_begins_with_the_five_meta_columns_in_gzip() -> None:
    codecs = set()
    for _, _, file in base_files():
        assert file.schema_arrow.names[:5] == META_COLUMNS
        codecs |= {
            file.metadata.row_group(group).column(column).compression
            for group in range(file.metadata.num_row_groups)
            for column in range(file.metadata.num_columns)
        }
    assert codecs == {"GZIP"}


def test_a_base_file_stores_each_type_in_one_way() -> None:
    stored: dict[str, set[str]] = {}
    for table, _, file in base_files():
        if table.table not in ("cow_types", "mor_types"):
            continue
        for index in range(len(file.schema)):
            column = file.schema.column(index)
            logical = str(column.logical_type)
            stored.setdefault(column.path, set()).add(f"{column.physical_type} {logical}")

    kinds = {kind for each in stored.values() for kind in each}
    assert {path for path in stored if "." in path} >= {"ar.array", "mp.key_value.key"}
    assert not any("INT96" in kind for kind in kinds)
    decimals = {kind for kind in kinds if "Decimal" in kind}
    assert decimals
    assert all(kind.startswith("FIXED_LEN_BYTE_ARRAY") for kind in decimals)
    times = {kind for kind in kinds if "Timestamp" in kind}
    assert times
    assert all(kind.startswith("INT64") and "microseconds" in kind for kind in times)
    assert {kind for kind in kinds if "Date" in kind} == {"INT32 Date"}


def test_each_row_of_a_base_file_names_commit_partition_and_file() -> None:
    rows = 0
    for table, path, file in base_files():
        folder, _, name = path.rpartition("/")
        parts = parse_base_file_name(name)
        assert parts is not None
        for row in file.read(columns=META_COLUMNS).to_pylist():
            assert row["_hoodie_file_name"] == name, (table.name, path)
            assert row["_hoodie_partition_path"] == folder
            assert row["_hoodie_commit_time"] <= parts.instant
            assert row["_hoodie_commit_seqno"].startswith(f"{row['_hoodie_commit_time']}_")
            rows += 1
    assert rows > 500


def test_a_generated_key_is_the_instant_the_task_and_a_number() -> None:
    for name in ("h0150_v6-keyless", "h120_v9-keyless"):
        for row in golden_tables.BY_NAME[name].expected() or ():
            time, task, number = row["_hoodie_record_key"].split("_")
            assert len(time) == 17
            assert task.isdecimal()
            assert number.isdecimal()


def test_a_log_file_is_named_by_its_slice_in_layout_1_and_by_its_commit_in_layout_2() -> None:
    own: Counter[tuple[bool, bool]] = Counter()
    for table, path, data in log_files():
        name = parse_log_file_name(path.rpartition("/")[2])
        assert name is not None
        written_by = {block.header[HeaderKey.INSTANT_TIME] for block in read_blocks(data)}
        own[table.version == 6, written_by <= {name.instant}] += 1
        assert table.version == 6 or name.version == 1, table.name

    # In layout 1 the two are the same where the log began its slice, as with a bucket index.
    assert own[True, False]
    assert own[False, True]
    assert not own[False, False]


def test_blocks_say_their_instant_and_schema_and_positions_only_in_layout_2() -> None:
    with_positions = 0
    for table, path, block in log_blocks():
        keys = {HeaderKey(key) for key in block.header}
        assert keys - POSITIONS == {HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA}, path
        assert keys & POSITIONS in (set(), POSITIONS), path
        assert not keys & POSITIONS or table.version > 6
        with_positions += bool(keys & POSITIONS)
        assert struct.unpack_from(">i", block.content) == (3,), path
        if block.block_type is BlockType.DELETE:
            assert struct.unpack_from(">i", block.content, 4) == (len(block.content) - 8,), path
        if block.block_type is BlockType.AVRO_DATA:
            fields = json.loads(block.header[HeaderKey.SCHEMA])["fields"]
            assert [field["name"] for field in fields][:5] == META_COLUMNS
    assert with_positions > 20


def test_a_record_of_a_log_names_its_file_group() -> None:
    checked = 0
    for table, path, block in log_blocks():
        if block.block_type is not BlockType.AVRO_DATA:
            continue
        name = parse_log_file_name(path.rpartition("/")[2])
        assert name is not None
        schema = fastavro.parse_schema(json.loads(block.header[HeaderKey.SCHEMA]))
        for data in avro_records(block, path):
            record: Any = fastavro.schemaless_reader(BytesIO(data), schema, None)
            assert record["_hoodie_file_name"] == name.file_id, table.name
            checked += 1
    assert checked > 50


def test_change_data_is_a_log_beside_its_base_file() -> None:
    table = golden_tables.BY_NAME["h120_v9-cow_cdc"]
    seen = 0
    for path, data in table.files().items():
        name = parse_log_file_name(path)
        if name is None:
            continue
        assert name.cdc
        for block in read_blocks(data):
            schema = json.loads(block.header[HeaderKey.SCHEMA])
            assert block.block_type is BlockType.CDC_DATA
            assert [f["name"] for f in schema["fields"]] == ["op", "ts_ms", "before", "after"]
            seen += 1
    assert seen == 3


def metadata_tables() -> list[GoldenTable]:
    key = f"{METADATA}.hoodie/hoodie.properties"
    return [table for table in golden_tables.ALL if key in table.files()]


def test_a_metadata_table_is_a_merge_on_read_table_of_hfiles() -> None:
    tables = metadata_tables()
    assert len(tables) > 5
    for table in tables:
        files = table.files()
        outer = parse_properties(files[".hoodie/hoodie.properties"], "p")
        values = parse_properties(files[f"{METADATA}.hoodie/hoodie.properties"], "p")
        expected = {
            "hoodie.table.name": f"{outer['hoodie.table.name']}_metadata",
            "hoodie.table.version": outer["hoodie.table.version"],
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.base.file.format": "HFILE",
            "hoodie.table.recordkey.fields": "key",
            "hoodie.populate.meta.fields": "false",
        }
        if table.version > 6:
            expected["hoodie.record.merge.mode"] = "CUSTOM"
        assert {key: values[key] for key in expected} == expected, table.name


PREFIXES = {
    "files": "files-0",
    "column_stats": "col-stats-0",
    "bloom_filters": "bloom-filters-0",
    "record_index": "record-index-0",
    "partition_stats": "partition-stats-0",
}


def test_the_properties_name_the_partitions_of_the_metadata_table() -> None:
    for table in metadata_tables():
        files = table.files()
        values = parse_properties(files[".hoodie/hoodie.properties"], "p")
        folders = {
            path.removeprefix(METADATA).split("/")[0]
            for path in files
            if path.startswith(METADATA) and not path.startswith(f"{METADATA}.hoodie/")
        }
        named = values["hoodie.table.metadata.partitions"].split(",")
        assert folders == set(named), table.name
        for path in files:
            folder, _, name = path.removeprefix(METADATA).rpartition("/")
            if folder in PREFIXES and not name.startswith(".hoodie"):
                assert name.removeprefix(".").startswith(PREFIXES[folder]), path


def test_a_metadata_table_has_first_instants_of_its_own_and_then_those_of_the_table() -> None:
    for table in metadata_tables():
        if not table.table.endswith(("_meta", "_rli")):
            continue  # a restore or rollback makes it anew
        inner, outer = (_completed(table, at) for at in (METADATA, ""))
        own = {time for time in inner if time.startswith("0000")}
        first = 10 if table.version == 6 else 0
        assert own == {f"{first + n:017d}" for n in range(len(own))}, table.name
        assert inner - own == outer, table.name


def _completed(table: GoldenTable, root: str) -> set[str]:
    layout, folder = (1, ".hoodie/") if table.version == 6 else (2, ".hoodie/timeline/")
    found = (parse_instant(path.removeprefix(root + folder), layout) for path in table.files())
    return {instant.time for instant in found if instant and instant.state is State.COMPLETED}


def test_a_metadata_table_begins_each_file_group_with_a_log_of_no_deletes() -> None:
    seen = 0
    for table in metadata_tables():
        for path, data in table.files().items():
            if path.startswith(METADATA) and path.endswith(".log.1_0-0-0"):
                (block,) = read_blocks(data)
                assert block.block_type is BlockType.DELETE, path
                assert block.content == struct.pack(">ii", 3, 1) + b"\0", path
                seen += 1
    assert seen > 10


def test_an_hfile_begins_with_a_block_and_ends_with_its_trailer() -> None:
    seen = 0
    for table in metadata_tables():
        for path, data in table.files().items():
            if path.startswith(METADATA) and path.endswith(".hfile"):
                assert data.startswith(b"DATABLK*"), path
                assert data[-4096:].startswith(b'TRABLK"$'), path
                assert struct.unpack(">i", data[-4:])[0] & 0xFF == 3, path
                assert b"FILEINF2" in data
                seen += 1
    assert seen > 5


def test_consistent_hashing_names_the_file_groups_of_each_partition() -> None:
    for name in ("h0150_v6-mor_bucket_consistent", "h120_v9-mor_bucket_consistent"):
        files = golden_tables.BY_NAME[name].files()
        hashing = [path for path in files if path.endswith(".hashing_meta")]
        assert hashing
        for path in hashing:
            partition, _, own = path.removeprefix(
                ".hoodie/.bucket_index/consistent_hashing_metadata/"
            ).rpartition("/")
            said = json.loads(files[path])
            assert own == "00000000000000.hashing_meta"
            assert said["partitionPath"] == partition
            assert said["numBuckets"] == len(said["nodes"])
            assert said["nodes"][-1]["value"] == 2**31 - 1
            prefixes = tuple(f"{partition}/.{node['fileIdPrefix']}-0_" for node in said["nodes"])
            logs = [p for p in files if p.startswith(f"{partition}/") and ".log." in p]
            assert all(log.startswith(prefixes) for log in logs), path


def test_index_definitions_lie_where_the_properties_say() -> None:
    seen = 0
    for table in golden_tables.ALL:
        files = table.files()
        values = parse_properties(files[".hoodie/hoodie.properties"], "p")
        place = values.get("hoodie.table.index.defs.path")
        if place:
            assert table.writer != "0.15.0"
            definitions = json.loads(files[place])["indexDefinitions"]
            assert "column_stats" in definitions
            seen += 1
    assert seen


def test_the_history_of_layout_2_has_a_version_that_names_its_newest_manifest() -> None:
    for name in ("h120_v9-cow_clean_archive", "h120_v9-mor_clean_archive"):
        folder = ".hoodie/timeline/history/"
        files = {
            path.removeprefix(folder): data
            for path, data in golden_tables.BY_NAME[name].files().items()
            if path.startswith(folder)
        }
        manifests = sorted(int(n[9:]) for n in files if n.startswith("manifest_"))
        newest = int(files["_version_"])
        assert newest == manifests[-1]
        assert len(manifests) <= 3
        listed = json.loads(files[f"manifest_{newest}"])["files"]
        assert {f["fileName"]: f["fileLen"] for f in listed} == {
            n: len(data) for n, data in files.items() if n.endswith(".parquet")
        }


def test_a_schema_history_has_its_newest_version_first() -> None:
    seen = 0
    for name in ("h0150_v6-cow_evolve", "h120_v9-cow_evolve"):
        for path, data in golden_tables.BY_NAME[name].files().items():
            if path.startswith(".hoodie/.schema/") and data:
                versions = [one["version_id"] for one in json.loads(data)["schemas"]]
                assert versions == sorted(versions, reverse=True), path
                assert versions[-1] == 0
                seen += 1
    assert seen > 4
