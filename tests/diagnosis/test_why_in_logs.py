"""``pyhudi.why`` on tables with logs: what it says of now is what a snapshot gives."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi
from pyhudi.diagnosis.why import Touch, What
from pyhudi.timeline.view import VIEWS
from tests import golden_tables
from tests.golden_tables import GoldenTable
from tests.reads.merged_table import opened, rows
from tests.services.logged_table import logged

TABLES = [t for t in golden_tables.ALL if t.merge_on_read and t.expected() is not None]
SOFT, BUCKET = "h120_v9-mor_soft_delete", "h120_v9-mor_bucket"


def told(name: str, folder: Path, key: str, **asked: str) -> list[Touch]:
    root = golden_tables.BY_NAME[name].unzip(folder)
    return list(pyhudi.why(str(root), key, **asked))


def events(found: list[Touch]) -> list[str]:
    return [each.what.value for each in found]


@pytest.mark.parametrize("golden", TABLES, ids=lambda each: each.name)
def test_each_key_of_each_table_is_told_as_a_snapshot_has_it(
    golden: GoldenTable, tmp_path: Path
) -> None:
    root = golden.unzip(tmp_path)
    held = {row["_hoodie_record_key"]: row for row in rows(opened(root))}
    for key in held.keys() | set(map(str, range(8))):
        last = pyhudi.why(str(root), key)[-1]
        if key in held:
            assert f"with the value of {held[key]['_hoodie_commit_time']}" in last.reason
            assert last.partition == held[key]["_hoodie_partition_path"]
            name = last.file.rpartition("/")[2].removeprefix(".")
            assert held[key]["_hoodie_file_name"].startswith(name.split("_")[0])
        else:
            assert (last.file, last.reason[:26]) == ("", "The table does not have it")


def test_a_key_that_only_a_log_has_is_found_there(tmp_path: Path) -> None:
    found = told(BUCKET, tmp_path, "5")
    assert events(found) == ["written", "now"]
    assert found[0].file == found[1].file
    assert ".log.1_" in found[1].file
    assert f"in this log file, with the value of {found[0].instant}" in found[1].reason


def test_a_key_that_a_log_has_deleted_is_told_with_the_commit_that_did(tmp_path: Path) -> None:
    found = told(BUCKET, tmp_path, "4")
    assert events(found) == ["inserted", "deleted", "now"]
    assert f"The log {found[1].file} of {found[1].instant} has deleted it." in found[2].reason
    assert events(told(SOFT, tmp_path, "2")) == ["inserted", "deleted", "now"]


def test_what_a_log_has_with_a_smaller_order_does_not_count(tmp_path: Path) -> None:
    for name, key in ((SOFT, "3"), (BUCKET, "1")):
        found = told(name, tmp_path, key)
        assert events(found) == ["inserted", "outranked", "now"]
        assert found[2].file == found[0].file
        assert f"with the value of {found[0].instant}" in found[2].reason
        assert "does not count against that" in found[2].reason


def test_the_logs_of_other_partitions_are_left_out(tmp_path: Path) -> None:
    name = "h120_v9-mor_meta"
    assert events(told(name, tmp_path, "4", partition="2024-01-03"))[1:] == ["deleted", "now"]
    (only,) = told(name, tmp_path, "4", partition="2024-01-04")
    assert "The table does not have it." in only.reason
    assert "logs" not in only.reason


@pytest.mark.parametrize("way", ["broken", "partial"])
def test_of_logs_that_cannot_be_read_nothing_is_told(way: str, tmp_path: Path) -> None:
    root = golden_tables.BY_NAME[SOFT].unzip(tmp_path)
    (log,) = (p for p in root.rglob(".*.log.*") if ".hoodie" not in p.parts)
    if way == "broken":
        log.write_bytes(log.read_bytes()[:-9])
    else:
        properties = root / ".hoodie" / "hoodie.properties"
        more = "hoodie.table.partial.update.mode=IGNORE_DEFAULTS\n"
        properties.write_text(properties.read_text() + more)
    found = told(SOFT, tmp_path, "2")
    assert events(found) == ["inserted", "unknown", "now"]
    assert f"may have changed or deleted it: {log.name}" in found[2].reason
    (only,) = told(SOFT, tmp_path, "9")
    assert "No file that was read has it." in only.reason
    assert "1 logs of the newest slices could not be read" in only.reason


@pytest.mark.parametrize("golden", TABLES, ids=lambda each: each.name)
def test_a_delete_in_a_log_is_told_as_such_after_its_compaction(
    golden: GoldenTable, tmp_path: Path
) -> None:
    table = logged(golden, tmp_path)
    deleted = {}
    for key in map(str, range(8)):
        told = pyhudi.why(str(table.root), key)
        last = [each for each in told if each.what in (What.DELETED, What.NOW)]
        in_base = any(each.what in (What.INSERTED, What.UPDATED) for each in told)
        if len(last) == 2 and ".log." in last[0].file and in_base:
            deleted[key] = last[0].instant, last[0].file
    if not deleted:
        pytest.skip("no log of a newest slice deletes a row of its base file")
    table.compact()
    VIEWS.forget_all()
    for key, event in deleted.items():
        told = pyhudi.why(str(table.root), key)
        ends = [each for each in told if each.what is What.DELETED]
        assert (ends[-1].instant, ends[-1].file) == event
        assert "has left it out" in ends[-1].reason
        assert ends[-1].operation != "compact"
        assert "The table does not have it" in told[-1].reason
