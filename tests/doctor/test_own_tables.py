"""Tables that pyhudi wrote, and that its own services changed, have nothing to repair."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyhudi.repairs.doctor import Visit
from pyhudi.repairs.patient import Wishes
from pyhudi.services.clean import clean_table
from pyhudi.services.clean_plan import Retention
from pyhudi.services.restore import restored
from pyhudi.services.savepoints import make_savepoint
from tests.archiver import archive
from tests.transactions.world import VERSIONS, World, begin_beside, dead_writer, other_lock, settle


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(request.param)
    yield made
    made.close()


def visit(world: World) -> Visit:
    wishes = Wishes(False, False, 0, {})
    return Visit(world.memory, world.clock, lambda said, table: other_lock(world), wishes)


def test_a_table_after_each_service_is_whole(world: World) -> None:
    done = [world.upsert({"a": str(n), f"b{n}": "1"}).instant for n in range(6)]
    make_savepoint(world.writer(), done[3], "")
    restored(world.writer(), done[3])
    world.upsert({"a": "again"})
    clean_table(world.writer(), Retention(commits=2))
    dead_writer(world)
    world.clock.sleep(1_000)
    settle(world)
    archive(world.table(), done[0], done[1])
    world.clock.sleep(1_000_000)
    before = {f.path: world.memory.read(f.path) for f in world.memory.walk("")}
    assert [(each.kind, each.evidence) for each in visit(world).diagnoses(dry_run=True)] == []
    assert visit(world).diagnoses(dry_run=False) == []
    assert {f.path: world.memory.read(f.path) for f in world.memory.walk("")} == before


def test_a_living_writer_is_no_fault_and_loses_nothing(world: World) -> None:
    world.upsert({"a": "1"})
    begin_beside(world)
    assert visit(world).diagnoses(dry_run=False) == []
