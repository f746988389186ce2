"""Stores whose listings lag: a commit waits for them, within its bounds, and publishes then."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pyhudi.config import resolve_write
from pyhudi.errors import WriteFailed
from pyhudi.format.instants import InstantTime
from pyhudi.storage.base import NOTHING_KNOWN, Files, Known
from pyhudi.storage.faults import FaultyStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.transactions.policy import visibility
from pyhudi.transactions.visible import VisibilityPolicy, await_visible
from pyhudi.transactions.writer import WriterPolicy
from tests.fakes import FakeClock
from tests.transactions.world import POLICY, World, finish, put_file, work

T = InstantTime("20240101000000000")
WAITING = WriterPolicy(heartbeat=POLICY.heartbeat, visibility=VisibilityPolicy(2_000, 5_000, 5))


class Lagging(FaultyStorage):
    """``inner``, whose listings of data files show what was ``lag_s`` ago."""

    def __init__(self, inner: MemoryStorage, clock: FakeClock, lag_s: float) -> None:
        super().__init__(inner)
        self._clock, self._lag_s = clock, lag_s
        self._added: dict[str, float] = {}
        self._gone: dict[str, tuple[float, Files]] = {}

    def put_if_absent(self, path: str, data: bytes) -> None:
        super().put_if_absent(path, data)
        self._added[path] = self._clock.monotonic()

    def delete(self, paths: Iterable[str]) -> None:
        for path in (named := list(paths)):
            files = [f for f in self._inner.walk("") if f.path == path]
            self._gone[path] = (self._clock.monotonic(), files)
        super().delete(named)

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        then = self._clock.monotonic() - self._lag_s
        found = [f for f in super().list(folder, known) if not self._hidden(f.path, then)]
        for path, (when, files) in self._gone.items():
            if when > then and path.rpartition("/")[0] == folder:
                found += files
        return found

    def _hidden(self, path: str, then: float) -> bool:
        return path.endswith(".parquet") and self._added.get(path, then) > then


def store(*names: str) -> MemoryStorage:
    storage = MemoryStorage()
    for name in names:
        storage.put_if_absent(name, b"")
    return storage


def test_what_is_seen_at_the_first_look_costs_no_pause() -> None:
    clock = FakeClock()
    inner = FaultyStorage(store("a/1", "a/2", "b/1", "root"))

    await_visible(inner, clock, VisibilityPolicy(), T, ["a/1", "a/2", "b/1", "root"], ["b/2"])

    assert clock.slept == []
    assert sorted(str(call) for call in inner.calls) == ["list ", "list a", "list b"]


def test_pauses_double_up_to_the_longest_and_only_what_is_open_is_looked_at_again() -> None:
    clock = FakeClock()
    inner = FaultyStorage(store("a/1"))

    with pytest.raises(WriteFailed, match=r"After 5 looks .* does not list 1 new files \(b/1\)"):
        await_visible(inner, clock, VisibilityPolicy(1_000, 3_000, 5), T, ["a/1", "b/1"], [])

    assert clock.slept == [1, 2, 3, 3]
    assert [str(call) for call in inner.calls].count("list a") == 1


def test_deleted_files_that_are_still_listed_fail_the_write_in_the_end() -> None:
    with pytest.raises(WriteFailed, match=r"still lists 1 deleted files \(a/1\)") as failed:
        await_visible(store("a/1"), FakeClock(), VisibilityPolicy(looks=2), T, [], ["a/1"])

    assert failed.value.facts["instant"] == T


def write_with_a_stray(world: World, storage: Lagging) -> None:
    transaction = world.begin(storage, policy=WAITING)
    try:
        written = work(transaction, {"k": "1"})
        put_file(transaction, "b", "stray-0", {"k": "stray"}, attempt=3)  # type: ignore[arg-type]
        finish(transaction, written)
    except BaseException:
        transaction.abort()
        raise


def test_a_commit_is_published_when_its_files_show_and_its_strays_do_not(world: World) -> None:
    storage = Lagging(world.memory, world.clock, lag_s=7)

    write_with_a_stray(world, storage)

    assert world.clock.slept[:2] == [2, 4]
    assert 7 <= sum(world.clock.slept) < 12
    assert world.rows() == {"k": "1"}
    assert world.leftovers() == []


def test_a_listing_that_never_catches_up_fails_the_write_and_undoes_it(world: World) -> None:
    storage = Lagging(world.memory, world.clock, lag_s=1_000)

    with pytest.raises(WriteFailed, match="does not list"):
        write_with_a_stray(world, storage)

    assert len(world.table().timeline().commits) == 0
    assert world.data_files() == set()


def test_nobody_waits_who_did_not_ask() -> None:
    assert visibility(resolve_write({}, {}, {})) is None


def test_hudis_options_set_looks_and_pauses() -> None:
    check = "hoodie.consistency.check."
    options = {
        check + "enabled": "true",
        check + "initial_interval_ms": "10",
        check + "max_interval_ms": "20",
        check + "max_checks": "3",
    }

    assert visibility(resolve_write(options, {}, {})) == VisibilityPolicy(10, 20, 3)
