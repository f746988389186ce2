"""What a stream asks and keeps while nothing happens in its table."""

from __future__ import annotations

import pytest

from pyhudi.timeline import active
from pyhudi.timeline.active import Listings
from tests.reads.changing_table import changing
from tests.reads.followed_table import Follower

VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])


@VERSIONS
def test_a_look_at_a_table_that_did_not_change_lists_it_once(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, listed = changing(version), []
    plain = Listings.list

    def counted(self: Listings, *asked: object) -> object:
        listed.append(asked)
        return plain(self, *asked)  # type: ignore[arg-type]

    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table)
    follower.all()
    monkeypatch.setattr(active.Listings, "list", counted)
    follower.ahead()
    for more in (1, 2):
        listed.clear()
        assert not follower.batch()
        assert len(listed) == 1, more
    table.complete(table.write(2, "g2", {"b": 2}))
    listed.clear()
    follower.ahead()
    assert len(listed) == 2, "a commit has ended"
    assert follower.all() == [[("b", 2, 2)]]


def test_a_first_state_that_is_read_is_not_kept() -> None:
    table = changing()
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table)
    end = follower.ahead().end
    assert end is not None
    assert follower.stream._held.snapshot is not None
    follower.all()
    assert follower.stream._held.snapshot is None
