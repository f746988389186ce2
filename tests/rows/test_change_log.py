"""Change logs beside merged files: what a merge did, in each of Hudi's three contents."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pyhudi.errors import InvalidRecord, TableCorrupt
from pyhudi.format.change_log import LogContent, change_log_schema
from pyhudi.format.log_blocks import HeaderKey, avro_records, read_blocks
from pyhudi.format.schemas import spark_to_avro
from pyhudi.rows import change_log_writer
from pyhudi.rows.change_reader import read_changes
from pyhudi.rows.change_spec import ChangePiece, ChangeSpec, Slice
from pyhudi.rows.groups import write_groups
from pyhudi.rows.spec import DELETE, GROUP, ChangeLogSpec, FileSystemSpec, GroupPlan, WriteSpec
from tests.rows.workers import SCHEMA, T1, T2, insert, rows_of, run, spec, upsert, with_columns

OLD = [
    {"id": "a", "name": "old a", "price": 1.0, "ts": 10},
    {"id": "b", "name": "old b", "price": 2.0, "ts": 10},
    {"id": "c", "name": "old c", "price": 3.0, "ts": 10},
]
NEW = [
    {"id": "d", "name": "new d", "price": 4.0, "ts": 11},
    {"id": "b", "name": "new b", "price": 5.0, "ts": 11},
    {"id": "c", "name": None, "price": None, "ts": 11},
    {"id": "a", "name": "late", "price": 9.0, "ts": 9},
]
KINDS = {"id": "string", "name": "string", "price": "double", "ts": "long"}
FIELDS = [{"name": n, "type": k, "nullable": True, "metadata": {}} for n, k in KINDS.items()]
AVRO = spark_to_avro({"type": "struct", "fields": FIELDS}, "t")


def logging(root: Path, content: LogContent, instant: str = T2, **more: Any) -> WriteSpec:
    log = ChangeLogSpec(change_log_schema(content, AVRO))
    return spec(root, instant, change_log=log, **more)


def records(root: Path, stat: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of a log, decoded by another library."""
    found: list[Any] = []
    data = (root / stat["change_log"]).read_bytes()
    assert len(data) == stat["change_log_bytes"]
    for block in read_blocks(data):
        assert block.header[HeaderKey.INSTANT_TIME] == T2
        schema = fastavro.parse_schema(json.loads(block.header[HeaderKey.SCHEMA]))
        for raw in avro_records(block, "p"):
            found.append(fastavro.schemaless_reader(BytesIO(raw), schema, None))
    return found


def merged(root: Path, content: LogContent) -> tuple[dict[str, Any], dict[str, Any]]:
    first = insert(spec(root), rows_of(OLD))
    marks = pa.array([False, False, True, False])
    return first, upsert(logging(root, content), first, rows_of(NEW, **{DELETE: marks}))


def test_a_log_has_each_change_with_both_images(tmp_path: Path) -> None:
    _, stat = merged(tmp_path, LogContent.DATA_BEFORE_AFTER)
    assert sorted(records(tmp_path, stat), key=lambda r: str(r["op"])) == [
        {"op": "d", "ts_ms": T2, "before": OLD[2], "after": None},
        {"op": "i", "ts_ms": T2, "before": None, "after": NEW[0]},
        {"op": "u", "ts_ms": T2, "before": OLD[1], "after": NEW[1]},
    ]


def test_a_log_of_less_has_the_key_instead(tmp_path: Path) -> None:
    _, stat = merged(tmp_path, LogContent.DATA_BEFORE)
    keys = {r["record_key"]: (r["op"], r["before"]) for r in records(tmp_path, stat)}
    assert keys == {"b": ("u", OLD[1]), "c": ("d", OLD[2]), "d": ("i", None)}


@pytest.mark.parametrize("content", list(LogContent))
def test_what_is_logged_is_read_back_with_both_images(content: LogContent, tmp_path: Path) -> None:
    first, stat = merged(tmp_path, content)
    image = pa.struct(list(SCHEMA))
    asked = ChangeSpec(str(tmp_path), FileSystemSpec(), image, image)
    piece = ChangePiece(T2, (stat["change_log"],), Slice(first["path"]), Slice(stat["path"]))
    inferred = ChangePiece(T2, (), Slice(first["path"]), Slice(stat["path"]))
    number = pa.record_batch([pa.array([0])], names=["n"])
    told = [
        sorted(
            str(row) for batch in read_changes(asked, [[each]])(iter([number]))
             for row in batch.to_pylist()
        )
        for each in (piece, inferred)
    ]  # fmt: skip
    assert told[0] == told[1]
    assert len(told[0]) == 3


def test_a_merge_that_changes_nothing_has_a_log_without_records(tmp_path: Path) -> None:
    """Apache Hudi refuses a file with rows of others and without a log."""
    first = insert(spec(tmp_path), rows_of(OLD))
    late = [{"id": "b", "name": "late", "price": 0.0, "ts": 1}]
    stat = upsert(logging(tmp_path, LogContent.DATA_BEFORE_AFTER), first, rows_of(late))
    assert (stat["num_writes"], stat["num_updates"]) == (3, 0)
    assert records(tmp_path, stat) == []
    assert len(list(read_blocks((tmp_path / stat["change_log"]).read_bytes()))) == 1


def test_rows_appended_to_an_old_file_are_logged_and_a_new_file_has_no_log(tmp_path: Path) -> None:
    first = insert(logging(tmp_path, LogContent.DATA_BEFORE_AFTER, T1), rows_of(OLD))
    assert first["change_log"] is None
    appending = logging(tmp_path, LogContent.DATA_BEFORE_AFTER, match_keys=False)
    plan = GroupPlan(0, first["file_id"], "", first["path"], T1)
    work = write_groups(appending, {0: plan})
    (stat,) = run(work, with_columns(rows_of(NEW[:1]), **{GROUP: 0}))
    assert [(r["op"], r["after"]["id"]) for r in records(tmp_path, stat)] == [("i", "d")]


def test_a_long_log_has_several_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log_writer, "BLOCK_ROWS", 2)
    _, stat = merged(tmp_path, LogContent.DATA_BEFORE_AFTER)
    assert len(list(read_blocks((tmp_path / stat["change_log"]).read_bytes()))) == 2
    assert len(records(tmp_path, stat)) == 3


def test_the_log_is_beside_its_file_and_has_a_marker(tmp_path: Path) -> None:
    _, stat = merged(tmp_path, LogContent.DATA_BEFORE_AFTER)
    base = Path(stat["path"]).name
    file_id, token, _ = base.removesuffix(".parquet").split("_")
    assert Path(stat["change_log"]).name == f".{file_id}_{T2}.log.1_{token}.cdc"
    markers = {f.name for f in (tmp_path / ".hoodie/.temp" / T2).rglob("*")}
    assert markers == {f"{base}.marker.MERGE", f"{Path(stat['change_log']).name}.marker.CREATE"}


def test_a_failed_task_leaves_no_log_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log_writer, "BLOCK_ROWS", 1)
    first = insert(spec(tmp_path), rows_of(OLD))
    plan = GroupPlan(0, first["file_id"], "", first["path"], T1)
    work = write_groups(logging(tmp_path, LogContent.DATA_BEFORE_AFTER), {0: plan})
    rows = with_columns(rows_of(NEW), **{GROUP: 0})
    monkeypatch.setattr("pyhudi.rows.merge.overlaid", _fails)
    with pytest.raises(InvalidRecord):
        list(work(iter(rows.to_batches())))
    assert list(tmp_path.rglob(".*.cdc")) == []


def _fails(*_: object) -> None:
    raise InvalidRecord("a row is wrong", column="x")


def test_a_log_that_names_a_row_which_no_slice_has_is_corrupt(tmp_path: Path) -> None:
    first, stat = merged(tmp_path, LogContent.OP_KEY_ONLY)
    image = pa.struct(list(SCHEMA))
    asked = ChangeSpec(str(tmp_path), FileSystemSpec(), image, image)
    wrong = ChangePiece(T2, (stat["change_log"],), Slice(first["path"]), Slice(first["path"]))
    number = pa.record_batch([pa.array([0])], names=["n"])
    with pytest.raises(TableCorrupt, match="lacks the row of a key that the log names"):
        list(read_changes(asked, [[wrong]])(iter([number])))
