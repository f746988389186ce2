"""Spools of statements that died go with the next write, those in use stay."""

from __future__ import annotations

from pyhudi.transactions.heartbeat import Heartbeat
from pyhudi.transactions.recovery.settle import settle_failed_writes
from pyhudi.transactions.recovery.spools import BEAT
from pyhudi.transactions.writer import Writer
from tests.transactions.world import LAPSE_S, NEVER, POLICY, World

SPOOL = ".hoodie/.temp/.spool-1"


def spooled(world: World) -> Heartbeat:
    """A statement that has put rows aside; its heart beats when the test says so."""
    heart = Heartbeat(world.memory, world.clock, BEAT, POLICY.heartbeat, SPOOL)
    heart.beat()
    world.memory.put_if_absent(f"{SPOOL}/0-0.parquet", b"rows")
    return heart


def left(world: World) -> list[str]:
    return [file.name for file in world.memory.walk(SPOOL)]


def test_the_spool_of_a_dead_statement_is_deleted_after_a_lapse_of_silence() -> None:
    world = World()
    spooled(world)
    world.clock.advance(LAPSE_S - 1)
    settle_failed_writes(
        Writer(world.table(), world.lock_of(world, world.memory), world.clock, POLICY)
    )
    assert left(world) == ["0-0.parquet", BEAT]

    world.clock.advance(1)
    world.upsert({"k": "1"}, policy=NEVER)
    assert left(world) == ["0-0.parquet", BEAT], "this writer leaves all to others"
    world.upsert({"k": "2"})
    assert left(world) == []


def test_a_spool_in_use_stays_however_old_it_is() -> None:
    world = World()
    heart = spooled(world)
    world.clock.advance(10 * LAPSE_S)
    heart.beat()
    world.upsert({"k": "1"})
    assert left(world) == ["0-0.parquet", BEAT]
