from __future__ import annotations

import json
from io import BytesIO

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import TableCorrupt
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, parse_commit, render_commit
from pyhudi.format.filenames import FileId

counts = st.integers(0, 2**62)
texts = st.text(max_size=20)
file_ids = texts.map(FileId)
optional_texts = st.none() | texts
stats = st.builds(
    WriteStat,
    file_ids,
    texts,
    texts,
    st.none() | st.from_regex(r"\d{17}", fullmatch=True),
    *[counts] * 6,
    optional_texts,
    st.none() | st.integers(0, 2**31 - 1),
    st.none() | counts,
    optional_texts,
    st.none() | st.lists(texts, max_size=3).map(tuple),
    st.none() | st.dictionaries(texts, counts, max_size=3),
)


def grouped(values: list[WriteStat]) -> tuple[WriteStat, ...]:
    """In file order: partitions in order of first appearance, stats together in each."""
    order = list(dict.fromkeys(stat.partition_path for stat in values))
    return tuple(sorted(values, key=lambda stat: order.index(stat.partition_path)))


commits = st.builds(
    CommitMetadata,
    st.sampled_from(["INSERT", "UPSERT", "DELETE", "INSERT_OVERWRITE", "UNKNOWN"]),
    st.lists(stats, max_size=5).map(grouped),
    st.dictionaries(texts, texts, max_size=3),
    st.none() | st.dictionaries(texts, st.lists(file_ids, max_size=3).map(tuple), max_size=3),
    st.booleans(),
)


@pytest.mark.parametrize("layout", [1, 2])
@given(commit=commits)
@settings(deadline=None)
def test_parsing_a_rendered_commit_gives_it_back(layout: int, commit: CommitMetadata) -> None:
    assert parse_commit(render_commit(commit, layout), "T.commit") == commit


STAT = WriteStat(
    FileId("f-0"), "p/f-0_0-1-2_T.parquet", "p", None, 5, 4, 1, 0, 100, 100,
)  # fmt: skip


def test_layout_1_is_json_with_hudi_s_names() -> None:
    record = json.loads(render_commit(CommitMetadata("UPSERT", (STAT,), {"schema": "{}"}), 1))

    entry = record["partitionToWriteStats"]["p"][0]
    assert entry["prevCommit"] == "null"
    assert (entry["numWrites"], entry["numUpdateWrites"], entry["numInserts"]) == (5, 1, 4)
    assert record["operationType"] == "UPSERT"
    assert record["extraMetadata"] == {"schema": "{}"}
    assert "partitionToReplaceFileIds" not in record


def test_layout_2_is_an_avro_file_that_another_library_reads() -> None:
    commit = CommitMetadata("INSERT_OVERWRITE", (STAT,), replaced={"p": (FileId("old-0"),)})

    reader = fastavro.reader(BytesIO(render_commit(commit, 2)))

    record = next(reader)
    assert isinstance(record, dict)
    assert record["partitionToReplaceFileIds"] == {"p": ["old-0"]}
    schema = reader.writer_schema
    assert isinstance(schema, dict)
    assert schema["name"].endswith("HoodieReplaceCommitMetadata")


def test_an_empty_replacement_is_still_a_replace_commit() -> None:
    commit = CommitMetadata("DELETE_PARTITION", replaced={})

    for layout in (1, 2):
        assert parse_commit(render_commit(commit, layout), "p").replaced == {}


def test_an_empty_file_is_an_empty_commit() -> None:
    assert parse_commit(b"", "T.inflight") == CommitMetadata()


def test_unknown_keys_are_passed_over_and_absent_ones_are_empty() -> None:
    text = b'{"partitionToWriteStats": {"p": [{"fileId": "f", "newKey": 1}]}, "other": {}}'

    (stat,) = parse_commit(text, "p").stats
    assert stat == WriteStat(FileId("f"), "", "p")


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"\xff\xfe",
        b"Obj\x01",
        b"Obj\x01\x02",
        b'{"partitionToWriteStats": {"p": 3}}',
        b'{"partitionToWriteStats": {"p": ["x"]}}',
        b'{"partitionToReplaceFileIds": {"p": null}}',
        b'{"extraMetadata": [1]}',
        render_commit(CommitMetadata("UPSERT", (STAT,)), 2)[:-20],
        render_commit(CommitMetadata("UPSERT", (STAT,)), 1)[:-20],
    ],
)
def test_what_is_no_commit_names_its_path(data: bytes) -> None:
    with pytest.raises(TableCorrupt) as error:
        parse_commit(data, ".hoodie/timeline/T_C.commit")
    assert error.value.facts["path"] == ".hoodie/timeline/T_C.commit"
    assert error.value.facts["rule"]
