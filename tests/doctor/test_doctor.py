"""The doctor on each kind of broken table: found, repaired, undone, or told and left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.cli.main import main
from pyhudi.errors import CommitConflict, HudiError
from pyhudi.format.instants import Action, Instant, State
from pyhudi.listing import Listing
from pyhudi.repairs.all_kinds import KINDS
from pyhudi.repairs.doctor import Diagnosis, Treatment
from pyhudi.timeline.view import VIEWS
from tests.doctor import faults, logged
from tests.doctor.broken import BROKEN, UNEXPLAINED, Broken
from tests.golden_tables import ALL, BY_NAME, COPY_ON_WRITE, GoldenTable
from tests.reads.merged_table import opened
from tests.reads.merged_table import rows as merged_rows


def contents(root: Path) -> dict[str, bytes]:
    """Every file of the table except what a bin or the doctor's lock has left."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".bin" not in path.parts
    }


def rows(root: Path) -> list[tuple[str, str]]:
    """The keys that pyhudi reads, each with the instant that wrote the row."""
    VIEWS.forget_all()
    found = []
    for file in pyhudi.Table(str(root)).files():
        table = pq.read_table(
            root / file.path, columns=["_hoodie_record_key", "_hoodie_commit_time"]
        )
        found += zip(*(column.to_pylist() for column in table.columns), strict=True)
    return sorted(found)


def look(root: Path, broken: Broken, dry_run: bool = True) -> Listing[Diagnosis]:
    return pyhudi.doctor(str(root), dry_run=dry_run, **dict(broken.more))  # type: ignore[arg-type]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_a_fault_is_found_repaired_and_the_repair_undone(broken: Broken, tmp_path: Path) -> None:
    good = rows(BY_NAME[broken.base].unzip(tmp_path / "good"))
    root = broken.make(tmp_path)
    before = contents(root)

    told = look(root, broken)
    assert contents(root) == before
    assert [(each.kind, each.treatment) for each in told if each.kind == broken.kind] == [
        (broken.kind, Treatment.WOULD_BE)
    ]

    done = look(root, broken, dry_run=False)
    assert {each.kind for each in done if each.treatment is Treatment.REPAIRED} >= {broken.kind}
    assert [each for each in look(root, broken) if each.kind == broken.kind] == []
    if broken.whole:
        assert rows(root) == good

    for name in sorted({each.bin for each in done if each.bin}, reverse=True):
        back = pyhudi.put_back(str(root), name)
        assert {each.outcome.value for each in back} == {"put back"}
    after = contents(root)
    # A checksum of Hadoop's client goes with each change of its file.
    lost = {path for path in before.keys() - after.keys() if not path.endswith(".crc")}
    lost -= {".hoodie/lock"}  # nothing is to be put back of a lock
    assert (lost, after.keys() - before.keys()) == (set(), set())
    assert {path: before[path] for path in after} == after


@pytest.mark.parametrize("broken", UNEXPLAINED, ids=lambda broken: broken.name)
def test_what_cannot_be_explained_is_told_and_left_alone(broken: Broken, tmp_path: Path) -> None:
    root = broken.make(tmp_path)
    before = contents(root)
    found = [each for each in look(root, broken, dry_run=False) if each.kind == broken.kind]
    assert {each.treatment for each in found} == {Treatment.LEFT}
    assert all(each.evidence and each.repair for each in found)
    assert contents(root) == before


@pytest.mark.parametrize("golden", ALL, ids=lambda golden: golden.name)
def test_tables_of_apache_hudi_have_nothing_to_repair(golden: object, tmp_path: Path) -> None:
    table = BY_NAME[golden.name]  # type: ignore[attr-defined]
    root = table.unzip(tmp_path)
    try:
        pyhudi.Table(str(root)).files()
    except HudiError:
        pytest.skip("pyhudi does not read it")
    found = pyhudi.doctor(str(root), read_files=table in COPY_ON_WRITE)
    assert [(each.kind, each.about, each.evidence) for each in found] == []


@pytest.mark.parametrize("broken", logged.TOLD, ids=lambda broken: broken.name)
def test_a_fault_beside_logs_is_told_and_left_alone(broken: Broken, tmp_path: Path) -> None:
    root = broken.make(tmp_path)
    before = contents(root)
    for forgets in (False, True):
        found = pyhudi.doctor(
            str(root),
            dry_run=False,
            forget_lost=forgets,
            **dict(broken.more),  # type: ignore[arg-type]
        )
        mine = [each for each in found if each.kind == broken.kind]
        assert {each.treatment for each in mine} == {Treatment.LEFT}
        assert all("not looked for" not in each.evidence and each.repair for each in mine)
        assert contents(root) == before


@pytest.mark.parametrize("broken", logged.REPAIRED, ids=lambda broken: broken.name)
def test_a_fault_that_logs_have_no_part_in_is_repaired(broken: Broken, tmp_path: Path) -> None:
    good = merged_rows(opened(BY_NAME[broken.base].unzip(tmp_path / "good")))
    root = broken.make(tmp_path)
    (would,) = [each for each in look(root, broken) if each.kind == broken.kind]
    assert would.treatment is Treatment.WOULD_BE
    (done,) = [e for e in look(root, broken, dry_run=False) if e.kind == broken.kind]
    assert done.treatment is Treatment.REPAIRED
    assert look(root, broken) == []
    VIEWS.forget_all()
    assert merged_rows(opened(root)) == good


@pytest.mark.parametrize("broken", logged.UNJUDGED, ids=lambda broken: broken.name)
def test_what_logs_hide_is_said_to_be_not_judged(broken: Broken, tmp_path: Path) -> None:
    root = broken.make(tmp_path)
    found = [each for each in look(root, broken) if each.kind == broken.kind]
    assert {each.treatment for each in found} == {Treatment.UNJUDGED}
    assert main(["doctor", "--read-files", str(root)]) == 0


LOGGED = [table for table in ALL if table.merge_on_read]


@pytest.mark.parametrize("golden", LOGGED, ids=lambda golden: golden.name)
def test_no_log_of_apache_hudi_is_damaged(golden: GoldenTable, tmp_path: Path) -> None:
    root = golden.unzip(tmp_path)
    try:
        pyhudi.Table(str(root)).files()
    except HudiError:
        pytest.skip("pyhudi does not read it")
    found = pyhudi.doctor(str(root), read_files=True)
    assert {each.treatment for each in found} <= {Treatment.UNJUDGED}


def test_there_are_kinds_without_number_and_each_has_a_broken_table() -> None:
    broken = {each.kind for each in (*BROKEN, *logged.TOLD)}
    assert broken == {kind.name for kind in KINDS}
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_a_folder_without_a_table_is_told(tmp_path: Path) -> None:
    with pytest.raises(HudiError, match="There is no Hudi table"):
        pyhudi.doctor(str(tmp_path))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("action", [Action.COMMIT, Action.RESTORE])
def test_nothing_is_repaired_while_a_write_or_a_restore_is_pending(
    action: Action, tmp_path: Path
) -> None:
    broken = next(broken for broken in BROKEN if broken.name == "lost_partition_metadata")
    root = broken.make(tmp_path)
    for state in (State.REQUESTED, State.INFLIGHT):
        faults.put(faults.instant_path(root, Instant(faults.LATER, action, state)), b"")
    before = contents(root)
    with pytest.raises(CommitConflict, match=faults.LATER):
        look(root, broken, dry_run=False)
    assert contents(root) == before
