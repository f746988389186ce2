"""Records of metadata tables that docs/spec states, read by the rules that it gives for HFiles."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import struct
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple

import fastavro

from pyhudi.format.filenames import parse_log_file_name
from pyhudi.format.keys import java_string_hash
from pyhudi.format.log_blocks import BlockType, HeaderKey, read_blocks
from pyhudi.format.xxhash64 import xxh64
from tests import golden_tables
from tests.format.test_golden_files import META_COLUMNS, METADATA, metadata_tables
from tests.golden_tables import GoldenTable

BLOCK = b"DATABLK*"
TYPES = {
    "files": {1, 2},
    "column_stats": {3},
    "bloom_filters": {4},
    "record_index": {5},
    "partition_stats": {6},
}


class Entry(NamedTuple):
    """A record of a metadata table: its partition, the number of its file group, key and value."""

    partition: str
    group: int
    key: str
    value: dict[str, Any]


def entries_of(hfile: bytes) -> Iterator[tuple[str, bytes]]:
    """Key and value of each entry in the data blocks, which come first."""
    at = 0
    while hfile.startswith(BLOCK, at):
        stored, unpacked, _, _, _, with_header = struct.unpack_from(">iiqbii", hfile, at + 8)
        plain = gzip.decompress(hfile[at + 33 : at + with_header])
        assert len(plain) == unpacked
        here = 0
        while here < unpacked:
            key_bytes, value_bytes = struct.unpack_from(">ii", plain, here)
            key = plain[here + 8 : here + 8 + key_bytes]
            (row,) = struct.unpack_from(">h", key)
            assert key[2 + row :] == b"\0" + struct.pack(">q", 2**63 - 1) + b"\4"
            here += 8 + key_bytes
            yield key[2 : 2 + row].decode(), plain[here : here + value_bytes]
            here += value_bytes + 1
        at += 33 + stored


def records(table: GoldenTable) -> Iterator[Entry]:
    """What the log files of a metadata table hold."""
    for path, data in table.files().items():
        name = parse_log_file_name(path.rpartition("/")[2])
        if name is None or not path.startswith(METADATA):
            continue
        partition = path.removeprefix(METADATA).split("/")[0]
        for block in read_blocks(data):
            if block.block_type is BlockType.HFILE_DATA:
                schema = fastavro.parse_schema(json.loads(block.header[HeaderKey.SCHEMA]))
                for key, value in entries_of(block.content):
                    record: Any = fastavro.schemaless_reader(BytesIO(value), schema, None)
                    yield Entry(partition, int(name.file_id.split("-")[-2]), key, record)


def test_each_partition_has_its_kind_of_records_whose_keys_are_outside_of_them() -> None:
    seen: Counter[str] = Counter()
    for table in metadata_tables():
        for entry in records(table):
            assert entry.value["type"] in TYPES[entry.partition], table.name
            assert entry.value["key"] == ""
            seen[entry.partition] += 1
    assert set(seen) == set(TYPES)


def test_the_partition_files_lists_partitions_and_the_files_of_each_with_their_sizes() -> None:
    checked = 0
    for table in metadata_tables():
        files = table.files()
        for entry in records(table):
            if entry.partition != "files":
                continue
            listed = entry.value["filesystemMetadata"]
            if entry.key == "__all_partitions__":
                assert {file["size"] for file in listed.values()} <= {0}
                continue
            for name, file in listed.items():
                path = name if entry.key == "." else f"{entry.key}/{name}"
                if path in files and ".log." not in path:
                    assert file["size"] == len(files[path]), (table.name, path)
                    checked += 1
    assert checked > 40


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _xx(text: str) -> str:
    return _b64(xxh64(text.encode()).to_bytes(8, "big"))


def test_keys_of_statistics_and_filters_are_hashes_of_column_partition_and_file() -> None:
    seen: Counter[str] = Counter()
    for table in metadata_tables():
        partitions, names = set(), set()
        for entry in records(table):
            if entry.partition == "files" and entry.key != "__all_partitions__":
                partitions.add("" if entry.key == "." else entry.key)
                names |= set(entry.value["filesystemMetadata"])
        columns = [*META_COLUMNS, "id", "name", "price", "ts", "dt"]
        places = {_xx(partition) for partition in partitions}
        files = {_b64(hashlib.md5(name.encode()).digest()) for name in names}
        of_columns = {_xx(column) for column in columns}
        # 8 bytes are 12 characters of Base64.
        for entry in records(table):
            parts = [entry.key[at : at + 12] for at in (0, 12)]
            if entry.partition == "column_stats":
                assert parts[0] in of_columns
                assert parts[1] in places
                assert entry.key[24:] in files, table.name
            elif entry.partition == "partition_stats":
                assert parts[0] in of_columns
                assert entry.key[12:] in places
            elif entry.partition == "bloom_filters":
                assert parts[0] in places
                assert entry.key[12:] in files
            seen[entry.partition] += 1
    assert seen["column_stats"] > 50
    assert seen["bloom_filters"] > 10


def test_a_record_key_is_in_the_group_of_its_hash() -> None:
    table = golden_tables.BY_NAME["h120_v9-cow_rli"]
    groups = {
        name.file_id
        for path in table.files()
        if (name := parse_log_file_name(path.rpartition("/")[2])) and "/record_index/" in path
    }
    found = [entry for entry in records(table) if entry.partition == "record_index"]
    rows = {row["_hoodie_record_key"] for row in table.expected() or ()}

    assert {entry.key for entry in found} >= rows
    assert len(groups) == 10
    for entry in found:
        assert entry.group == abs(java_string_hash(entry.key)) % len(groups), entry.key
