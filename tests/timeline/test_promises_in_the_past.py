"""Time travel to slices that a clean has taken is refused, never answered in part."""

from __future__ import annotations

import pytest

from pyhudi.errors import HistoryExpired
from pyhudi.format.filenames import FileId
from tests.timeline.bare import Bare, after, t


def test_time_travel_to_a_slice_that_was_cleaned_is_refused_instead_of_answered_in_part(
    bare: Bare,
) -> None:
    old = bare.file("g1", 10)
    bare.commit(10, old, bare.file("g2", 10))
    bare.commit(20, after(bare.file("g1", 20), 10))
    bare.storage.delete([old.path])
    view = bare.view()

    with pytest.raises(HistoryExpired, match="cleaned"):
        view.latest(t(15))
    assert [f.instant for f in view.latest(t(20))] == [t(20), t(10)]
    assert [f.instant for f in view.latest()] == [t(20), t(10)]


def test_time_travel_misses_the_cleaned_slice_of_an_archived_commit(bare: Bare) -> None:
    """The commit that followed it tells that it was there."""
    bare.commit(10, bare.file("g2", 10))
    bare.commit(20, after(bare.file("g1", 20), 5))

    with pytest.raises(HistoryExpired, match="cleaned"):
        bare.view().latest(t(10))
    assert [f.instant for f in bare.view().latest()] == [t(20), t(10)]


def test_time_travel_misses_no_slice_that_log_files_may_have_made(bare: Bare) -> None:
    bare.commit(10, bare.file("g2", 10))
    bare.commit(20, after(bare.file("g1", 20), 5))
    bare.storage.put_if_absent(f"p/.g1_{t(5)}.log.1_0-0-0", b"")

    assert [f.instant for f in bare.view().latest(t(10))] == [t(10)]


def test_time_travel_misses_a_group_of_an_archived_commit_that_was_replaced_and_cleaned(
    bare: Bare,
) -> None:
    bare.commit(10, bare.file("g2", 10))
    bare.replace(20, {"p": (FileId("g1"),)}, bare.file("g3", 20))

    with pytest.raises(HistoryExpired, match="cleaned"):
        bare.view().latest(t(10))
    assert [f.file_id for f in bare.view().latest(t(20))] == ["g2", "g3"]


def test_time_travel_misses_a_replaced_group_that_was_cleaned(bare: Bare) -> None:
    old = bare.file("g1", 10)
    bare.commit(10, old)
    bare.replace(20, {"p": (FileId("g1"),)}, bare.file("g2", 20))
    bare.storage.delete([old.path])

    with pytest.raises(HistoryExpired, match="cleaned"):
        bare.view().latest(t(10))


def test_a_group_that_is_younger_than_the_asked_time_is_not_missed(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10))
    bare.commit(20, bare.file("g2", 20))
    bare.commit(30, after(bare.file("g2", 30), 20))

    assert [f.file_id for f in bare.view().latest(t(10))] == ["g1"]
