"""The events of a key from slices and logs that are given as values."""

from __future__ import annotations

import pytest

from pyhudi.diagnosis.data_files import Look
from pyhudi.diagnosis.logged_keys import LoggedKey
from pyhudi.diagnosis.touches import GroupLife, KnownCommit, SeenSlice, What, touches_of
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from tests.timeline.bare import t


@pytest.mark.parametrize(
    ("begun", "ended", "named", "is_new"),
    [
        (20, 40, 20, True),
        (20, 25, 20, False),
        (40, 50, 40, True),
        (20, 99, 10, False),
        (40, 50, 30, True),
    ],
    ids=["ended after", "ended before", "began after", "of an older slice", "of the slice"],
)
def test_of_a_log_that_was_not_read_its_slice_tells_whether_it_may_have_the_key(
    begun: int, ended: int, named: int, is_new: bool
) -> None:
    """In layout 2 the completion decides, in layout 1 the name."""
    base, log = f"p/g_0-1-0_{t(30)}.parquet", f"p/.g_{t(named)}.log.1_0-1-0"
    known = {
        t(30): KnownCommit(t(30), "compact", t(35)),
        t(begun): KnownCommit(t(begun), "upsert", t(ended)),
    }
    held = SeenSlice(base, t(30), look=Look.HELD, rows=1, written_by=InstantTime(t(30)))
    life = GroupLife(
        ("p", FileId("g")), [held], [(t(begun), log)], logged=LoggedKey((log,), unread=True)
    )
    found, _ = touches_of([life], known)
    assert ([each.file for each in found if each.what is What.UNKNOWN] == [log]) is is_new
