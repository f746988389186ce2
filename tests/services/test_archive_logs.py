"""Layout 1's archive: its log files and their records."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pyhudi.errors import TableCorrupt
from pyhudi.format.archive import archive_log_number, read_archive_log
from pyhudi.format.instants import Action, InstantTime, State
from pyhudi.format.log_blocks import HeaderKey, LogBlock, read_blocks
from pyhudi.services.clean import clean_table
from pyhudi.timeline.archived import archived_instants
from tests import golden_tables
from tests.services.test_archive import RETENTION, active, in_archive, rows_of, run, versions
from tests.transactions.world import World


@pytest.fixture
def world(new_world: Callable[..., World]) -> World:
    return new_world(6)


def logs(world: World) -> list[str]:
    files = world.memory.list(world.table().config.history_folder)
    return sorted(f.path for f in files if archive_log_number(f.name) is not None)


def test_each_state_of_an_instant_has_a_record(world: World) -> None:
    one, two, *_ = versions(world, 4)
    run(world)
    (log,) = logs(world)
    assert log.endswith("/.commits_.archive.1_1-0-1")
    found = read_archive_log(world.memory.read(log), log)
    states = [State.REQUESTED, State.INFLIGHT, State.COMPLETED]
    assert [(e.instant.time, e.instant.state) for e in found] == [
        (time, state) for time in (one, two) for state in states
    ]


def test_the_metadata_of_a_clean_is_kept(world: World) -> None:
    versions(world, 3)
    clean_table(world.writer(), RETENTION)
    versions(world, 4)
    clean_table(world.writer(), RETENTION)
    run(world)
    cleans = [
        e
        for e in archived_instants(world.memory, world.table().config)
        if e.instant.action is Action.CLEAN
    ]
    assert [e.contents["totalFilesDeleted"] for e in cleans if isinstance(e.contents, dict)] == [1]


def test_each_archive_puts_a_log_of_its_own(world: World) -> None:
    times = list[InstantTime]()
    for _ in range(3):
        times += versions(world, 3)
        run(world)
    assert [archive_log_number(path.rsplit("/", 1)[1]) for path in logs(world)] == [1, 2]
    assert rows_of(world) == in_archive(world)
    assert [*in_archive(world), *active(world)] == times


def test_a_record_with_fields_of_another_version_keeps_what_hudi_knows(world: World) -> None:
    versions(world, 4)
    timeline = world.table().timeline()
    path = timeline.file_of(timeline.commits[0])
    text = world.memory.read(path).replace(b"{", b'{"ofTomorrow": {"x": 1}, ', 1)
    world.memory.replace(path, text)
    run(world)
    assert len(in_archive(world)) == 2


def test_a_torn_file_stays_on_the_timeline(world: World) -> None:
    times = versions(world, 4)
    timeline = world.table().timeline()
    inflight = timeline.file_of(timeline.commits[0]).replace(".commit", ".inflight")
    world.memory.replace(inflight, b'{"partition')
    with pytest.raises(TableCorrupt, match="inflight"):
        run(world)
    assert active(world) == times
    assert in_archive(world) == []


def test_the_schema_of_a_block_is_that_of_apache_hudi(world: World) -> None:
    versions(world, 4)
    run(world)
    (log,) = logs(world)
    (ours,) = read_blocks(world.memory.read(log))
    files = golden_tables.BY_NAME["h120_v6-cow_clean_archive"].files()
    hudis = next(read_blocks(files[".hoodie/history/.commits_.archive.1_1-0-1"]))
    assert schema_of(ours) == schema_of(hudis)


def schema_of(block: LogBlock) -> object:
    return without_docs(json.loads(block.header[HeaderKey.SCHEMA]))


def without_docs(node: object) -> object:
    if isinstance(node, list):
        return [without_docs(each) for each in node]
    if isinstance(node, dict):
        return {key: without_docs(value) for key, value in node.items() if key != "doc"}
    return node
