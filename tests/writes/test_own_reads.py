from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.errors import CommitConflict
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.active import Timeline, instant_key
from pyhudi.writes.own_reads import OwnReads, common_state, given_up, place_of


def timeline(*times: int, pending: int | None = None) -> Timeline:
    found = [
        Instant(InstantTime(f"{time:017d}"), Action.COMMIT, State.COMPLETED, InstantTime("9"))
        for time in times
    ]
    if pending is not None:
        found.append(Instant(InstantTime(f"{pending:017d}"), Action.COMMIT, State.INFLIGHT))
    return Timeline(2, ".hoodie/timeline", tuple(found), {instant_key(i): 1 for i in found})


def commits(found: Timeline) -> list[int]:
    return [int(commit.time) for commit in found.commits]


@pytest.mark.parametrize(
    "scans", [[(1, 2), (1, 2, 3)], [(1, 2, 3), (1, 2)], [(1, 2, 3), (1, 2, 4)], [(1, 2)]]
)
def test_rows_of_several_scans_are_judged_from_what_all_of_them_saw(
    scans: list[tuple[int, ...]],
) -> None:
    assert commits(common_state([timeline(*scan) for scan in scans])) == [1, 2]


def test_what_was_pending_for_one_scan_is_no_commit_for_all() -> None:
    both = common_state([timeline(1, pending=2), timeline(1, 2)])
    assert (commits(both), len(both.pending)) == ([1], 1)


def test_a_table_is_one_place_by_whatever_path_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    real, link, other = (LocalStorage(str(tmp_path / n)) for n in ("real", "link", "other"))
    assert place_of(real) == place_of(link) != place_of(other)
    assert place_of(MemoryStorage("memory:/t")) == "memory:/t"


def test_a_state_that_is_not_known_is_a_conflict() -> None:
    with pytest.raises(CommitConflict, match="no longer known"):
        _ = OwnReads(None, 0).state


def test_a_conflict_that_is_given_up_says_what_to_do_and_keeps_its_facts() -> None:
    error = given_up(CommitConflict("Both changed a/1.", overlap=("a/1",)))
    assert str(error).startswith("[COMMIT_CONFLICT] Both changed a/1. ")
    assert "read the table again" in str(error)
    assert error.facts == {"overlap": ("a/1",)}
