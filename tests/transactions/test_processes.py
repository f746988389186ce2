"""Which process a heartbeat names, and when a writer may count as dead without a wait."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pyhudi.format.markers import FOLDER as MARKERS
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.heartbeat import Heartbeat
from pyhudi.transactions.processes import LINUX, LinuxProcesses, Process, parse_process
from pyhudi.transactions.recovery.spools import BEAT, PREFIX, sweep_spools
from pyhudi.transactions.transaction import Transaction
from pyhudi.transactions.writer import WriterPolicy
from tests.transactions.world import LAZY, POLICY, World, die, settle, work

ASKS = """
from pyhudi.transactions.processes import LINUX
print(LINUX.this().render().decode(), flush=True)
input()
"""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """A process of its own that has told its name and waits."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", ASKS]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=paths) as process:
        yield process
        process.kill()


def told(child: subprocess.Popen[str]) -> Process:
    assert child.stdout is not None
    found = parse_process(child.stdout.readline().encode())
    assert found is not None
    return found


def test_this_process_lives() -> None:
    ours = LINUX.this()
    assert ours is not None
    assert ours.pid == os.getpid()
    assert not LINUX.has_ended(ours)


def test_a_process_that_was_killed_has_ended(child: subprocess.Popen[str]) -> None:
    process = told(child)
    assert not LINUX.has_ended(process)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert LINUX.has_ended(process), "nobody has waited for it yet"
    child.wait()
    assert LINUX.has_ended(process)


def test_a_number_that_another_process_has_now_is_not_taken_for_the_first() -> None:
    ours = LINUX.this()
    assert ours is not None
    assert LINUX.has_ended(replace(ours, started=ours.started - 1))


@pytest.mark.parametrize("place", ["boot", "pid_namespace", "time_namespace"])
def test_of_a_process_elsewhere_nothing_is_known(place: str, child: subprocess.Popen[str]) -> None:
    process = replace(told(child), **{place: "another"})
    child.kill()
    child.wait()
    assert not LINUX.has_ended(process)


def test_a_living_process_that_proc_hides_does_not_count_as_ended(
    child: subprocess.Popen[str], tmp_path: Path
) -> None:
    process = told(child)
    (tmp_path / "self").symlink_to(str(os.getpid()))
    (tmp_path / str(os.getpid())).symlink_to(f"/proc/{os.getpid()}")
    (tmp_path / "sys").symlink_to("/proc/sys")
    hidden = LinuxProcesses(tmp_path)
    assert hidden.this() == LINUX.this()
    assert not hidden.has_ended(process)


def test_a_process_of_another_user_does_not_count_as_ended() -> None:
    def refuses(pid: int, signal: int) -> None:
        raise PermissionError

    ours = LINUX.this()
    assert ours is not None
    assert not LinuxProcesses(signal=refuses).has_ended(ours)


def test_the_proc_of_another_namespace_tells_nothing(tmp_path: Path) -> None:
    ours = LINUX.this()
    assert ours is not None
    (tmp_path / "self").symlink_to("1")
    assert LinuxProcesses(tmp_path).this() is None
    assert not LinuxProcesses(tmp_path).has_ended(replace(ours, started=0))
    assert LinuxProcesses(tmp_path / "nowhere").this() is None


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"pid": "x"}'])
def test_a_heartbeat_without_a_process_names_none(data: bytes) -> None:
    assert parse_process(data) is None


# -- what a writer does about it

OURS = Process("host", "boot", "pid:[1]", "time:[1]", 7, 11)


@dataclass(frozen=True)
class Machine:
    """A machine whose only process either lives or has ended."""

    ended: bool

    def this(self) -> Process:
        return OURS

    def has_ended(self, process: Process) -> bool:
        return self.ended and process == OURS


def on(machine: Machine, policy: WriterPolicy) -> WriterPolicy:
    return replace(policy, heartbeat=replace(policy.heartbeat, processes=machine))


def writer_of(world: World, machine: Machine) -> Transaction:
    """A writer that sends no heartbeat any more, after it had written its files."""
    begun = world.begin(policy=on(machine, POLICY))
    work(begun, {"k": "dead"})
    die(begun)
    return begun


@pytest.mark.parametrize("policy", [POLICY, LAZY], ids=["eager", "lazy"])
def test_a_writer_whose_process_has_ended_is_rolled_back_at_once(
    policy: WriterPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    dead = writer_of(world, Machine(ended=True))
    before = world.clock.monotonic()
    with caplog.at_level(logging.WARNING):
        settle(world, on(Machine(ended=True), policy))
    assert world.table().timeline().at(dead.instant) == ()
    assert world.clock.monotonic() - before < 10
    assert "process 7 on this host, has ended" in caplog.text


def test_a_writer_whose_process_lives_is_left_alone() -> None:
    world = World()
    living = writer_of(world, Machine(ended=False))
    settle(world, on(Machine(ended=False), LAZY))
    assert world.table().timeline().at(living.instant) != ()


@pytest.mark.parametrize("ended", [True, False])
def test_the_heartbeat_of_a_process_that_ended_before_its_request_is_deleted_at_once(
    ended: bool,
) -> None:
    world, machine = World(), Machine(ended)
    policy = on(machine, POLICY)
    Heartbeat(world.memory, world.clock, "20240101000000000", policy.heartbeat).beat()
    settle(world, policy)
    assert bool(world.memory.list(HEARTBEATS)) is not ended


def test_the_spool_of_a_process_that_has_ended_is_deleted_at_once() -> None:
    world, folder = World(), f"{MARKERS}/{PREFIX}1"
    policy = on(Machine(ended=True), POLICY).heartbeat
    Heartbeat(world.memory, world.clock, BEAT, policy, folder).beat()
    sweep_spools(world.memory, world.clock, POLICY.heartbeat, [folder])
    assert world.memory.walk(folder)
    sweep_spools(world.memory, world.clock, policy, [folder])
    assert world.memory.walk(folder) == []
