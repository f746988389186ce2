"""Layout 2's archive: the names of its files, its manifests and its levels."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from pyhudi.format.archive import history_file_level, parse_manifest
from pyhudi.format.instants import InstantTime
from pyhudi.services import archive_history
from pyhudi.services.archiver import archive_table
from pyhudi.storage.faults import Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.timeline.archived import history_version, just_archived
from pyhudi.timeline.view import VIEWS
from tests.services.test_archive import KEEP_2, active, in_archive, rows_of, run, versions
from tests.transactions.world import World


@pytest.fixture(params=[8, 9], ids=lambda version: f"v{version}")
def world(new_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    return new_world(request.param)


def test_the_files_of_the_archive_are_named_as_hudi_names_them(world: World) -> None:
    one, two, *_ = versions(world, 4)
    run(world)
    three, four, *_ = active(world)
    versions(world, 2)
    run(world)
    folder = world.table().config.history_folder
    names = [f"{one}_{two}_0.parquet", f"{three}_{four}_0.parquet"]
    assert {f.name for f in world.memory.list(folder)} == {
        "_version_", "manifest_1", "manifest_2", *names
    }  # fmt: skip
    assert world.memory.read(f"{folder}/_version_") == b"2"
    manifest = world.memory.read(f"{folder}/manifest_2")
    assert parse_manifest(manifest, "") == names
    sizes = {f.name: f.size_bytes for f in world.memory.list(folder)}
    assert all(e["fileLen"] == sizes[e["fileName"]] for e in json.loads(manifest)["files"])


def files_of_archive(world: World) -> list[str]:
    return sorted(f.name for f in world.memory.list(world.table().config.history_folder))


def test_many_files_of_a_level_become_one_of_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_history, "BATCH", 2)
    times = list[InstantTime]()
    for _ in range(8):
        times += versions(world, 2)
        run(world)
        assert sorted(rows_of(world)) == in_archive(world), "each once"
        assert [*in_archive(world), *active(world)] == times
    folder = world.table().config.history_folder
    number, files = history_version(world.memory, folder)
    levels = sorted(history_file_level(name) or 0 for name in files)
    assert len(levels) == len(set(levels)), "below two files of each level"
    assert levels[-1] == 2
    left = files_of_archive(world)
    assert len([n for n in left if n.startswith("manifest_")]) <= archive_history.MANIFESTS + 3
    assert f"manifest_{number}" in left
    assert len(left) < number + len(files), "obsolete manifests and files are gone"


def test_a_file_that_no_manifest_names_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_history, "BATCH", 2)
    stranger = f"{world.table().config.history_folder}/{'1' * 17}_{'2' * 17}_0.parquet"
    world.memory.put_if_absent(stranger, b"somebody is putting it")
    for _ in range(8):
        versions(world, 2)
        run(world)
    assert world.memory.read(stranger) == b"somebody is putting it"


@pytest.mark.parametrize("at", range(1, 24))
@pytest.mark.parametrize("effect", [Effect.CRASH_BEFORE, Effect.CRASH_AFTER])
def test_a_merge_that_died_loses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, at: int, effect: Effect
) -> None:
    monkeypatch.setattr(archive_history, "BATCH", 2)
    times = list[InstantTime]()
    for _ in range(3):
        times += versions(world, 2)
        run(world)
    times += versions(world, 2)
    with suppress(SimulatedCrash):
        archive_table(world.writer(FaultyStorage(world.memory, Fault(effect, at))), KEEP_2)
    VIEWS.forget(world.memory)
    assert set(in_archive(world)) | set(active(world)) >= set(times)
    for _ in range(4):
        times += versions(world, 2)
        run(world)
    assert sorted(rows_of(world)) == in_archive(world)
    assert set(in_archive(world)) | set(active(world)) >= set(times)


def test_without_the_version_file_the_newest_manifest_counts(world: World) -> None:
    one, two, *_ = versions(world, 4)
    run(world)
    world.memory.delete([f"{world.table().config.history_folder}/_version_"])
    assert in_archive(world) == [one, two]
    versions(world, 2)
    run(world)
    assert in_archive(world)[:2] == [one, two]
    assert len(in_archive(world)) == 4


def test_a_version_file_that_was_set_back_hides_nothing_that_is_archived(world: World) -> None:
    """As by an archiver that stood still before its last put, until others had archived on."""
    times = versions(world, 4)
    run(world)
    times += versions(world, 2)
    run(world)
    world.memory.replace(f"{world.table().config.history_folder}/_version_", b"1")
    assert [*in_archive(world), *active(world)] == times
    begin, end = InstantTime(times[0]), InstantTime(times[-1])
    assert len(just_archived(world.memory, world.table().config, begin, end)) == 4
