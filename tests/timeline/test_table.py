"""A table that is upgraded or downgraded between its properties and the first listing."""

from __future__ import annotations

import pytest

from pyhudi.errors import HistoryExpired, UnsupportedTable
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import parse_properties, render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.inspection import InspectedTable
from pyhudi.timeline.table import BACKUP, PROPERTIES, Table, open_table, open_with_timeline

T1, T2 = InstantTime("20240101000000001"), InstantTime("20240101000000002")
COMMIT = Instant(T1, Action.COMMIT, State.COMPLETED, T2)
FOLDERS = {6: ".hoodie", 9: ".hoodie/timeline"}


VERSION = "hoodie.table.version"


class Upgraded:
    """A table with one commit, in one version and then in another."""

    numbers = iter(range(1_000_000))

    def __init__(self, version: int) -> None:
        self.storage = MemoryStorage(f"memory:/upgraded{next(self.numbers)}")
        name = BaseFileName(FileId("g"), "0-0-0", T1).render()
        self.storage.put_if_absent(name, b"x")
        self.stat = WriteStat(FileId("g"), name, "", num_writes=1, file_size_bytes=1)
        self.declare(version)
        self.move(version)

    def declare(self, version: int) -> None:
        properties = new_table_properties(
            name="t", version=version, record_key_fields=["id"], partition_fields=[],
            ordering_fields=[], merge_mode=MergeMode.COMMIT_TIME_ORDERING,
            key_generator=KeyGenerator.NON_PARTITION,
        )  # fmt: skip
        self.storage.replace(PROPERTIES, render_properties(properties))

    def move(self, version: int) -> None:
        """As an upgrade does before it rewrites the properties."""
        for folder in FOLDERS.values():
            ours = [f.path for f in self.storage.list(folder) if f.name.startswith(T1)]
            self.storage.delete(ours)
        layout = 1 if version == 6 else 2
        path = f"{FOLDERS[version]}/{instant_file_name(COMMIT, layout)}"
        data = render_commit(CommitMetadata("UPSERT", (self.stat,)), layout)
        self.storage.put_if_absent(path, data)

    def change(self, version: int) -> None:
        self.move(version)
        self.declare(version)


def files(table: Table) -> list[str]:
    return [f.file_id for f in table.view(table.timeline()).latest()]


@pytest.mark.parametrize(("old", "new"), [(6, 9), (9, 6)])
@pytest.mark.parametrize("known", [False, True], ids=["first look", "known table"])
def test_a_table_that_changed_its_layout_since_it_was_opened_is_not_taken_for_empty(
    old: int, new: int, known: bool
) -> None:
    world = Upgraded(old)
    table = open_table(world.storage)
    if known:
        assert files(table) == ["g"]
    world.change(new)

    with pytest.raises(HistoryExpired, match=f"version {old}.*version {new}") as moved:
        table.timeline()
    assert moved.value.facts["moved"]
    again, timeline = open_with_timeline(world.storage)
    assert again.config.version == new
    assert [i.time for i in timeline.commits] == [T1]


@pytest.mark.parametrize(("old", "new"), [(6, 9), (9, 6)])
def test_a_table_that_is_being_moved_to_another_layout_is_not_taken_for_empty(
    old: int, new: int
) -> None:
    world = Upgraded(old)
    world.move(new)

    with pytest.raises(HistoryExpired, match="interrupted"):
        open_with_timeline(world.storage)
    world.declare(new)
    assert files(open_with_timeline(world.storage)[0]) == ["g"]


@pytest.mark.parametrize(("old", "new"), [(6, 9), (9, 6)])
def test_a_second_look_at_a_table_that_is_half_moved_believes_it_as_little(
    old: int, new: int
) -> None:
    """Found by the explorer: looking again compared the torn listing with itself."""
    world = Upgraded(old)
    later = Instant(InstantTime("20240101000000003"), Action.COMMIT, State.COMPLETED, T2)
    stays = f"{FOLDERS[old]}/{instant_file_name(later, 1 if old == 6 else 2)}"
    world.storage.put_if_absent(stays, render_commit(CommitMetadata("UPSERT"), 1))
    assert files(open_table(world.storage)) == ["g"]
    world.move(new)

    for _ in range(2):
        with pytest.raises(HistoryExpired, match="interrupted"):
            open_with_timeline(world.storage)


def test_the_properties_are_read_once_more_only_where_instants_have_left_the_timeline() -> None:
    world = Upgraded(9)
    table = open_table(world.storage)
    assert files(table) == ["g"]
    read: list[str] = []
    storage = world.storage
    original = storage.read
    storage.read = lambda path: (read.append(path), original(path))[1]  # type: ignore[method-assign]
    table.timeline()
    assert read == []
    assert len(InspectedTable.on(storage).files()) == 1
    assert read == [PROPERTIES, PROPERTIES], "each opening reads them once"


def test_a_question_about_now_is_asked_once_where_history_is_gone() -> None:
    table = open_table(Upgraded(6).storage)
    asked: list[object] = []

    def expired(view: object) -> None:
        asked.append(view)
        raise HistoryExpired("cleaned", asked=None, earliest=None)

    with pytest.raises(HistoryExpired, match="cleaned"):
        table.now(expired)
    assert len(asked) == 1


def test_a_whole_table_of_a_version_to_come_is_not_opened_by_its_backup() -> None:
    world = Upgraded(9)
    old = world.storage.read(PROPERTIES)
    world.storage.replace(BACKUP, old)
    world.storage.replace(
        PROPERTIES, render_properties({**parse_properties(old, PROPERTIES), VERSION: "99"})
    )
    with pytest.raises(UnsupportedTable):
        open_table(world.storage)


def test_a_question_about_now_is_asked_again_where_the_table_has_moved() -> None:
    world = Upgraded(6)
    table = open_table(world.storage)
    world.change(9)
    assert table.now(lambda view: [f.file_id for f in view.latest()]) == ["g"]
