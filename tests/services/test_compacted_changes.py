"""Compactions of tables with change data: their change logs say what logs did to base files."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import UnsupportedTable
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import FileId, parse_base_file_name
from pyhudi.format.instants import InstantTime
from pyhudi.format.log_blocks import HeaderKey, avro_records, read_blocks
from pyhudi.rows import compacted_changes
from pyhudi.services.compaction import CompactionFate, CompactionStep
from pyhudi.services.written_files import files_in
from pyhudi.timeline.pending import planned_compactions
from tests import golden_tables
from tests.doctor.broken import with_property
from tests.services.logged_table import LoggedTable, logged
from tests.services.test_compaction import Beside, die_while_it_runs, fates, silence

MODES = ("DATA_BEFORE_AFTER", "DATA_BEFORE", "OP_KEY_ONLY")
#: golden tables, and the operations that their logs hold
TABLES = {"h102_v8-mor_np": "d", "h102_v8-mor_bucket": "diu", "h120_v8-mor_bucket": "diu",
          "h120_v9-mor_np": "d", "h120_v9-mor_bucket": "diu", "h120_v9-mor_part_compact": "du",
          "h120_v9-mor_types": "u"}  # fmt: skip
CDC = "hoodie.table.cdc"
ALL = {"class": "ALL", "sort_columns": "id"}
ROW = ("id", "name", "price", "ts", "dt")
Row = dict[str, Any]
#: (file group, key) -> the row
State = dict[tuple[str, str], Row]


def with_changes(name: str, folder: Path, mode: str = MODES[0]) -> LoggedTable:
    """A golden table that writes change logs from now on."""
    table = logged(golden_tables.BY_NAME[name], folder)
    properties = table.root / ".hoodie/hoodie.properties"
    more = f"{CDC}.enabled=true\n{CDC}.supplemental.logging.mode={mode}\n"
    properties.write_text(properties.read_text() + more)
    return table


def in_files(table: LoggedTable) -> dict[tuple[str, str], State]:
    """The rows of every base file, by file group and instant."""
    found: dict[tuple[str, str], State] = {}
    for path in table.root.rglob("*.parquet"):
        name = parse_base_file_name(path.name)
        if name is None or ".hoodie" in path.parts:
            continue
        held = pq.read_table(io.BytesIO(path.read_bytes())).to_pylist()
        rows = {
            (name.file_id, r["_hoodie_record_key"]): {n: r[n] for n in ROW if n in r} for r in held
        }
        found[name.file_id, name.instant] = rows
    return found


@dataclass(frozen=True)
class Change:
    op: str
    before: Row | None
    after: Row | None


def oracle(table: LoggedTable, metadata: CommitMetadata, time: str) -> dict[Any, Change]:
    """What the compaction did to each row, by its file and the one before."""
    files, found = in_files(table), dict[Any, Change]()
    for stat in metadata.stats:
        new = files[stat.file_id, time]
        old = files.get((stat.file_id, stat.prev_commit or ""), {})
        if not old:
            continue
        for key in {**old, **new}:
            before, after = old.get(key), new.get(key)
            if before != after:
                op = "i" if before is None else "d" if after is None else "u"
                found[key] = Change(op, before, after)
    return found


def told(table: LoggedTable, metadata: CommitMetadata) -> Iterator[tuple[FileId, Row]]:
    """The records of the change logs of a commit, decoded by another library."""
    for stat in metadata.stats:
        for path, size in (stat.cdc_stats or {}).items():
            data = (table.root / path).read_bytes()
            assert len(data) == size
            for block in read_blocks(data):
                schema = fastavro.parse_schema(json.loads(block.header[HeaderKey.SCHEMA]))
                for raw in avro_records(block, path):
                    yield stat.file_id, fastavro.schemaless_reader(io.BytesIO(raw), schema, None)  # type: ignore[misc]


def image(row: Row | None) -> Row | None:
    """Times as numbers, as Avro without logical types has them."""
    return None if row is None else {n: row[n] for n in ROW if n in row}


def compare(table: LoggedTable, mode: str) -> set[str]:
    """Compare the last compaction's change logs with the oracle; the operations that there are."""
    commits = table.table().timeline().commits
    metadata, time = (
        table.last_commit(),
        next(c.time for c in reversed(commits) if c.action.value == "commit"),
    )
    wanted = oracle(table, metadata, time)
    found = list(told(table, metadata))
    seen: dict[Any, Change] = {}
    for file_id, record in found:
        row = record.get("before") or record.get("after") or {}
        key = (
            record.get("record_key")
            or next(
                k
                for k, c in wanted.items()
                if k[0] == file_id and (c.after or c.before)["id"] == row["id"]  # type: ignore[index]
            )[1]
        )
        assert (file_id, key) not in seen
        seen[file_id, key] = Change(
            record["op"], image(record.get("before")), image(record.get("after"))
        )
    # A row that came again as it was is an update, too.
    same = {k: c for k, c in seen.items() if k not in wanted}
    assert {c.op for c in same.values()} <= {"u"}
    for key, change in wanted.items():
        assert seen[key].op == change.op
        assert seen[key].before == (image(change.before) if "BEFORE" in mode else None)
        assert seen[key].after == (image(change.after) if "AFTER" in mode else None)
    for stat in metadata.stats:
        assert bool(stat.cdc_stats) == (stat.prev_base_file is not None)
    return {c.op for c in seen.values()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("held_bytes", [1, 64 << 20])
@pytest.mark.parametrize("name", TABLES)
def test_the_change_log_of_a_compaction_has_what_the_logs_did(
    name: str, mode: str, held_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows that go are held at once."""
    init = compacted_changes.CompactedChanges.__init__
    monkeypatch.setattr(init, "__defaults__", (held_bytes,))
    table = with_changes(name, tmp_path, mode)
    before = table.rows()
    assert fates(table.compact()) == {"compacted"}
    assert table.rows() == before
    assert compare(table, mode) == set(TABLES[name])
    assert not table.compact(), "a change log is nothing to compact"


def change_logs(table: LoggedTable) -> set[str]:
    return {name for name in table.on_disk() if name.endswith(".cdc")}


def test_what_a_dead_run_logged_goes_with_its_base_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_changes("h120_v9-mor_bucket", tmp_path)
    before = table.rows()
    (time,) = {each.compaction for each in table.compact(CompactionStep.SCHEDULE)}
    die_while_it_runs(table, monkeypatch)
    assert (dead := change_logs(table))
    silence(table, InstantTime(time or ""))

    assert fates(table.compact(CompactionStep.RUN)) == {"compacted"}
    assert table.rows() == before
    assert change_logs(table) == {
        name for name in files_in(table.last_commit().stats) if name.endswith(".cdc")
    }
    assert not change_logs(table) & dead


def test_a_group_that_is_left_out_keeps_no_change_log(tmp_path: Path) -> None:
    table = with_changes("h120_v9-mor_bucket", tmp_path)
    folder = table.root / ".hoodie/timeline"

    def replace_one() -> None:
        now = table.table().timeline()
        ((time, plan),) = [(i.time, p) for i, p in planned_compactions(table.table(), now)]
        early, each = int(time) - 1, plan.operations[0]
        name = f"{each.file_id}_7-7-7_{early}.parquet"
        old = table.root / each.partition_path / (each.data_file_path or "")
        size = old.with_name(name).write_bytes(old.read_bytes())
        path = f"{each.partition_path}/{name}".lstrip("/")
        stat = WriteStat(
            each.file_id, path, each.partition_path, each.base_instant_time, file_size_bytes=size
        )
        done = render_commit(CommitMetadata("UPSERT", (stat,)), 2)
        late = int(now.greatest_time()) + 1
        (folder / f"{early}_{late}.deltacommit").write_bytes(done)

    found = table.compact(tasks=Beside(replace_one))
    assert sorted(each.fate.value for each in found) == ["compacted", "left"]
    named = {name for name in files_in(table.last_commit().stats) if name.endswith(".cdc")}
    assert change_logs(table) == named
    assert len(named) == 1


@pytest.mark.parametrize(
    ("name", "mode", "told"),
    [
        ("h120_v6-mor_log", MODES[0], "change logs in table version 6"),
        ("h120_v9-mor_bucket", "SOMETHING", "logging.mode=SOMETHING"),
    ],
)
def test_change_logs_that_pyhudi_does_not_write_are_refused(
    name: str, mode: str, told: str, tmp_path: Path
) -> None:
    table = with_changes(name, tmp_path, mode)
    files = table.on_disk()
    with pytest.raises(UnsupportedTable, match=told):
        table.compact()
    assert table.on_disk() == files


def test_logs_alone_and_clusterings_have_no_change_log(tmp_path: Path) -> None:
    """They change no row, and Apache Hudi asks nothing of their commits."""
    table = with_changes("h120_v9-mor_bucket", tmp_path / "a")
    before = table.rows()
    merged = table.compact(
        CompactionStep.SCHEDULE_AND_RUN_LOGS, hoodie_log_compaction_blocks_threshold="2"
    )
    assert CompactionFate.COMPACTED in {each.fate for each in merged}
    assert table.rows() == before
    assert not change_logs(table)

    table = with_changes("h120_v9-mor_part_compact", tmp_path / "b")
    before = table.rows()
    assert {each.fate.value for each in table.cluster(**ALL)} == {"clustered"}
    assert table.rows() == before
    assert not change_logs(table)


def test_a_copy_on_write_table_with_change_logs_is_clustered(tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME["h120_v9-cow_cdc"], tmp_path)
    before, logs = table.rows(), change_logs(table)
    assert {each.fate.value for each in table.cluster(**ALL)} == {"clustered"}
    assert table.rows() == before
    assert change_logs(table) == logs


def test_of_partial_updates_no_change_log_is_written(tmp_path: Path) -> None:
    """A row of a log that loses may change the one that wins, which no change log could tell."""
    table = with_changes("h120_v9-mor_bucket", tmp_path)
    with_property(table_partial_update_mode="IGNORE_DEFAULTS")(table.root)
    before = table.on_disk()
    with pytest.raises(UnsupportedTable, match="cannot compact a table of partial updates with"):
        table.compact(CompactionStep.SCHEDULE_AND_RUN)
    assert table.on_disk() == before
