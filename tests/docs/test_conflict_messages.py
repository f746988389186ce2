"""What a user reads when writers meet: each message of docs/conflicts.md is raised here.

``python -m tests.docs.test_conflict_messages`` writes the messages into the page again.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyhudi.choices import ConflictRule, SchemaConflicts
from pyhudi.config import LockOptions
from pyhudi.errors import HudiError
from pyhudi.format.instants import Action
from pyhudi.locks.base import LockOwner
from pyhudi.locks.filesystem import FilesystemLock
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.locks.open import LockOpener
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage
from tests.transactions.pessimists import (
    begin,
    foreign_upsert,
    groups_of,
    hand,
    set_mark,
    upsert,
)
from tests.transactions.test_non_blocking import (
    EVENT_TIME,
    based_world,
    committed,
    log,
    passing,
    plan,
    stored,
)
from tests.transactions.world import (
    LAPSE_S,
    NEVER,
    World,
    die,
    finish,
    schema,
    settle,
    work,
)
from tests.undoing import Undoing

PAGE = Path(__file__).parents[2] / "docs" / "conflicts.md"
WIDTH = 96
EARLY = replace(NEVER, early=True)


def same_group(world: World) -> None:
    world.upsert({"k": "0"})
    first, second = world.begin(), world.begin(policy=NEVER)
    written = [(t, work(t, {"k": "1"})) for t in (first, second)]
    finish(*written[0])
    finish(*written[1])


def later_log(world: World) -> None:
    policy = replace(NEVER, conflicts=passing(ConflictRule.SIMPLE))
    slow, fast = (world.begin(policy=policy, action=Action.DELTACOMMIT) for _ in range(2))
    committed(world, fast, log(time=fast.instant))
    plan(world, world.writer().next_time(world.table().timeline()), fast.instant)
    committed(world, slow, log(time=slow.instant))


def row_above_delete(_: World) -> None:
    with ExitStack() as ends:

        def new_world(*facts: Any) -> World:
            world = World(*facts)
            ends.callback(world.close)
            return world

        world, policy = based_world(new_world, EVENT_TIME)
        fast, slow = (world.begin(policy=policy, action=Action.DELTACOMMIT) for _ in range(2))
        stored(world, fast, log(time=fast.instant), "DELETE")
        stored(world, slow, log(time=slow.instant))


def replaced_partition(world: World) -> None:
    world.upsert({"old": "0"})
    second = world.begin()
    first = world.begin(action=Action.REPLACECOMMIT, policy=NEVER)
    written = work(second, {"k": "1"})
    finish(first, work(first, {"j": "1"}, overwrite=True))
    finish(second, written)


def running_write(world: World) -> None:
    world.upsert({"k": "0"})
    running, mine = world.begin(policy=NEVER), world.begin(policy=EARLY)
    work(running, {"k": "1"})
    mine.check_updates((f.partition_path, f.file_id) for f in world.view().latest())


def schemas(world: World) -> None:
    world.upsert({"k": "0"})
    first, second = world.begin(policy=NEVER), world.begin(policy=NEVER)
    assert NEVER.schemas is SchemaConflicts.SIMPLE
    finish(first, work(first, {"a": "1"}, "b"), schema("key", "value", "tip"))
    finish(second, work(second, {"b": "1"}, "c"), schema("key", "value", "toll"))


def group_locked(world: World) -> None:
    owner = LockOwner("20240501123005123", "etl-7", 4711, "application_1714550000_0042")
    opener = LockOpener(world.clock, lambda root: world.memory)
    open_lock = opener.groups(LockOptions(), "t", world.memory)
    name = "a/5f1c9d2e-7a41-4c0b-9f6e-2b8d1a3c4e50-0"
    with GroupLocks(open_lock, world.clock, 1, 20) as taken:
        taken.hold([name], owner)
        GroupLocks(open_lock, world.clock, 1, 20).hold([name], owner)


def written_without_locks(world: World) -> None:
    set_mark(world, True)
    with hand(world) as groups:
        upsert(world, {"k": "0"}, groups)
        mine = begin(world, groups)
        mine.check_updates(groups_of(world, mine))
        written = work(mine, {"k": "1"})
        foreign_upsert(world, {"k": "2"})
        finish(mine, written)


def lock_timeout(world: World) -> None:
    owner = LockOwner("20240501123005123", "etl-7", 4711, "application_1714550000_0042")
    taken = FilesystemLock(world.memory, world.clock)
    taken.acquire(1, owner)
    FilesystemLock(world.memory, world.clock).acquire(20, owner)


def rolled_back(world: World) -> None:
    slow = world.begin(policy=NEVER)
    written = work(slow, {"k": "1"})
    die(slow)
    world.clock.advance(LAPSE_S + 1)
    settle(world)
    finish(slow, written)


def silent(world: World) -> None:
    slow = world.begin(policy=NEVER)
    written = work(slow, {"k": "1"})
    die(slow)
    world.clock.advance(LAPSE_S + 1)
    finish(slow, written)


def unknown(world: World) -> None:
    lost = Fault(Effect.LOSE_REQUEST, path="*_*.commit", times=3)
    world.upsert({"k": "1"}, FaultyStorage(world.memory, lost))


def came_between(world: World) -> None:
    world.upsert({"k": "0"})
    rival = world.begin()
    theirs = work(rival, {"k": "2"})

    def hang(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".commit"):
            world.clock.advance(61)
            finish(rival, theirs)

    ours = world.begin(FaultyStorage(world.memory, before=hang), policy=NEVER)
    finish(ours, work(ours, {"k": "1"}))


def restored(world: World) -> None:
    saved = world.upsert({"k": "1"})
    later = world.upsert({"k": "2"})
    mine = world.begin()
    written = work(mine, {"k": "3"})
    steps = Undoing(world.table()).restore(saved.instant, [later.instant])
    for step in itertools.islice(steps, 4):
        step()
    finish(mine, written)


def commit_rolled_back(world: World) -> None:
    last = world.upsert({"k": "1"})
    mine = world.begin()
    written = work(mine, {"k": "2"})
    next(Undoing(world.table()).rollback(last.instant))()
    finish(mine, written)


SCENES: dict[str, Callable[[World], None]] = {
    "Both changed the same rows": same_group,
    "The other replaced the partition": replaced_partition,
    "The other is still running": running_write,
    "A compaction is about to merge a later log": later_log,
    "A row came above a delete": row_above_delete,
    "Both changed the schema": schemas,
    "The table is set back": restored,
    "A commit is rolled back": commit_rolled_back,
    "A file group stays locked": group_locked,
    "Somebody wrote without locks": written_without_locks,
    "The lock stays taken": lock_timeout,
    "This writer was taken for dead": rolled_back,
    "This writer was silent for too long": silent,
    "The last put got no answer": unknown,
    "Another write came between the look and the put": came_between,
}


def message(world: World, scene: Callable[[World], None]) -> str:
    """The scene's error as the page shows it, with times and ids that do not depend on the run."""
    with pytest.raises(HudiError) as raised:
        scene(world)
    seen: dict[str, str] = {}

    def instant(found: re.Match[str]) -> str:
        return seen.setdefault(found[0], f"202405011230051{len(seen) + 11}")

    text = re.sub(r"(?<!\d)2023\d{13}(?!\d)", instant, str(raised.value))
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}-0", "5f1c9d2e-7a41-4c0b-9f6e-2b8d1a3c4e50-0", text)
    text = re.sub(r"memory:/t\d+", "s3a://lake/trips", text)
    text = re.sub(r"2023-11-14 [\d:]{8} UTC", "2024-05-01 12:30:05 UTC", text)
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def block(text: str, title: str) -> re.Match[str]:
    # The title's own text may come first; the message is its first block.
    head = rf"## {re.escape(title)}\n(?:(?!## |```)[^\n]*\n)*```text\n"
    found = re.search(rf"{head}(.*?)\n```\n", text, re.DOTALL)
    assert found is not None, f"docs/conflicts.md has no section '{title}'"
    return found


@pytest.mark.parametrize("title", SCENES)
def test_the_page_shows_what_is_raised(title: str) -> None:
    world = World(9)
    try:
        assert block(PAGE.read_text(encoding="utf-8"), title)[1] == message(world, SCENES[title])
    finally:
        world.close()


def main() -> None:
    """Put the messages of today into the page."""
    text = PAGE.read_text(encoding="utf-8")
    for title, scene in SCENES.items():
        world = World(9)
        begin, end = block(text, title).span(1)
        text = text[:begin] + message(world, scene) + text[end:]
        world.close()
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
