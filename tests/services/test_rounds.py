"""Rounds of services: rollback, clean, archive and clustering by a job of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pyhudi
from pyhudi.cli.main import main
from pyhudi.clock import SystemClock
from pyhudi.config import WriteOptions
from pyhudi.errors import ConfigError
from pyhudi.listing import Listing
from pyhudi.locks.base import LockOwner
from pyhudi.services import clean as clean_module
from pyhudi.services import rounds
from pyhudi.services.budget import Allowance, Budget
from pyhudi.services.file_systems import filesystems
from pyhudi.services.rounds import (
    USUAL,
    RoundBudget,
    Service,
    ServiceTurn,
    round_of,
    watch_services,
)
from tests import golden_tables
from tests.fakes import FakeClock
from tests.transactions.world import VERSIONS, World, begin_beside, die, other_lock

OPTIONS = WriteOptions(commits_retained=1, keep_min_commits=2, keep_max_commits=3)


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def world(new_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    return new_world(request.param)


@pytest.fixture(autouse=True)
def _old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)


def versions(world: World, count: int) -> None:
    for number in range(count):
        world.upsert({"k": str(number)})


def turns(
    world: World,
    services: Collection[Service] = USUAL,
    budget_s: float | None = None,
    dry_run: bool = False,
) -> dict[str, tuple[int, int]]:
    found = round_of(
        world.writer(), OPTIONS, services, RoundBudget(budget_s), dry_run, filesystems({})
    )
    assert [turn.error for turn in found] == [""] * len(found)
    return {turn.service.value: (turn.done, turn.left) for turn in found}


def test_a_round_does_all_that_is_due_and_the_next_finds_nothing(world: World) -> None:
    versions(world, 6)
    die(begin_beside(world))
    world.clock.advance(3_600)
    due = turns(world, dry_run=True)
    assert due["clean"] == (0, 4)
    assert world.table().timeline().pending

    done = turns(world)

    assert done["failed_writes"] == (1, 0)
    assert done["clean"][0] >= 4
    assert done["archive"][0] >= 1
    assert not world.table().timeline().pending
    assert world.rows() == {"k": "5"}
    assert turns(world) == {"failed_writes": (0, 0), "clean": (0, 0), "archive": (0, 0)}


def test_only_the_chosen_services_have_a_turn(world: World) -> None:
    versions(world, 6)
    assert turns(world, [Service.CLEAN]) == {"clean": (4, 0)}


def test_after_its_budget_a_round_begins_no_new_part(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions(world, 8)
    monkeypatch.setattr(rounds, "STEP", 2)
    looks = iter([False, False, True])
    monkeypatch.setattr(Allowance, "is_over", lambda self, elsewhere_cpu_s: next(looks))
    assert turns(world, [Service.CLEAN], budget_s=50.0) == {"clean": (4, 2)}
    monkeypatch.undo()
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)
    assert turns(world, [Service.CLEAN]) == {"clean": (2, 0)}


def test_a_round_stops_after_so_many_files(world: World) -> None:
    versions(world, 8)
    few = RoundBudget(files=Budget(max_files=4))
    for left in ((4, 2), (2, 0)):
        found = round_of(world.writer(), OPTIONS, [Service.CLEAN], few, False, filesystems({}))
        assert [(turn.done, turn.left) for turn in found] == [left]


def test_a_round_stops_after_so_many_bytes(world: World) -> None:
    versions(world, 8)
    one = RoundBudget(files=Budget(max_bytes=1))
    found = round_of(world.writer(), OPTIONS, [Service.CLEAN], one, False, filesystems({}))
    assert [(turn.done, turn.left) for turn in found] == [(1, 5)]


def test_a_round_stops_after_so_much_cpu_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions(world, 8)
    monkeypatch.setattr(rounds, "STEP", 2)
    used = iter([0.0, 59.0, 60.0])
    monkeypatch.setattr(Allowance.__init__, "__defaults__", (None, None, lambda: next(used)))
    one = RoundBudget(max_cpu_minutes=1)
    found = round_of(world.writer(), OPTIONS, [Service.CLEAN], one, False, filesystems({}))
    assert [(turn.done, turn.left) for turn in found] == [(2, 4)]


def test_an_error_of_one_service_is_told_and_the_next_has_its_turn(world: World) -> None:
    versions(world, 6)
    other_lock(world).acquire(0.0, LockOwner.this_process("other"))
    writer = world.writer()
    writer = replace(writer, policy=replace(writer.policy, lock_timeout_s=0.0))
    found = round_of(writer, OPTIONS, USUAL, RoundBudget(), False, filesystems({}))
    assert [turn.service for turn in found] == list(USUAL)
    assert "LOCK_TIMEOUT" in found[1].error
    assert "LOCK_TIMEOUT" in found[2].error
    assert world.rows() == {"k": "5"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"services": ["index"]},
            "'index' is no service of a round.",
        ),
        ({"budget_s": 0.0}, "'budget_s' is 0"),
        ({"max_cpu_minutes": -1}, "'max_cpu_minutes' is -1"),
        ({"max_bytes": 0}, "'max_bytes' is 0"),
    ],
)
def test_wrong_words_change_nothing(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    path = golden_tables.BY_NAME["h120_v9-cow_bloom"].unzip(tmp_path)
    before = sorted(path.rglob("*"))
    with pytest.raises(ConfigError, match=words):
        pyhudi.run_services(str(path), **more)
    with pytest.raises(ConfigError, match="'every_s' is 0"):
        watch_services(str(path), print, 0)
    assert sorted(path.rglob("*")) == before


def test_a_round_waits_for_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single writer's policy is EAGER, which waits until a heartbeat is stale."""
    path = golden_tables.BY_NAME["h120_v9-cow_multiwriter"].unzip(tmp_path)
    slept = list[float]()
    monkeypatch.setattr(SystemClock, "sleep", lambda self, seconds: slept.append(seconds))
    found = pyhudi.run_services(str(path), services=["failed_writes"])
    assert [(turn.done, turn.left, turn.error) for turn in found] == [(0, 1, "")]
    assert slept == []


def test_rounds_go_on_until_they_are_interrupted(tmp_path: Path) -> None:
    path = golden_tables.BY_NAME["h120_v9-cow_bloom"].unzip(tmp_path)
    told, clock = list[Listing[ServiceTurn]](), FakeClock()
    began = clock.monotonic()

    def tell(turns: Listing[ServiceTurn]) -> None:
        told.append(turns)
        if len(told) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch_services(str(path), tell, 7.0, clock=clock)
    assert clock.monotonic() - began == 14.0
    assert [len(each) for each in told] == [3, 3, 3]


def test_the_command_prints_the_turns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = golden_tables.BY_NAME["h120_v9-cow_bloom"].unzip(tmp_path)
    assert main(["services", "--dry-run", str(path)]) == 0
    text = capsys.readouterr().out
    assert [each.value in text for each in Service] == [True, False, True, True, False]
    assert main(["services", "--only", "clean", str(path)]) == 0
    assert "archive" not in capsys.readouterr().out
    assert main(["services", "--only", "clean", "--cluster", str(path)]) == 0
    text = capsys.readouterr().out
    assert [each.value in text for each in Service] == [False, False, True, False, True]

    def watched(path: str, tell: Callable[[Any], None], *_: Any, **__: Any) -> None:
        tell(Listing(ServiceTurn, [ServiceTurn(Service.CLEAN, 3, 0, 0.5)]))
        raise KeyboardInterrupt

    monkeypatch.setattr("pyhudi.cli.service_rounds.watch_services", watched)
    assert main(["services", "--watch", "5", str(path)]) == 0
    text = capsys.readouterr().out
    assert "clean" in text
    assert text.endswith("Stopped.\n")
