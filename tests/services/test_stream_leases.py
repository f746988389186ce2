"""A stream's lease from its first place on: its first batch is not read yet, so all of it stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi.config import resolve_read
from pyhudi.reads.stream_offsets import Offset, StreamOffset
from pyhudi.reads.streams import Stream
from pyhudi.services.archive_plan import ArchivePolicy
from pyhudi.services.archiver import ArchiveRules, archive_table
from pyhudi.services.clean import clean_table
from pyhudi.timeline.view import VIEWS
from tests.application.test_after_commit import runtime
from tests.services.test_leases import NEWEST_ONLY, now
from tests.transactions.world import VERSIONS, World

START = "hoodie.datasource.streaming.startOffset"


def streaming(world: World, start: str) -> tuple[Stream, Offset]:
    table = world.table()
    seen = now(world) if table.timeline().commits else None
    stream = Stream(runtime(world), table.storage.root, resolve_read({START: start}), seen)
    return stream, stream.begin()[0]


def services(world: World) -> tuple[int, int]:
    """How many files a clean deletes, and how many instants an archive takes."""
    VIEWS.forget_all()
    cleaned = [f.fate.value for f in clean_table(world.writer(), NEWEST_ONLY)]
    archived = archive_table(world.writer(), ArchiveRules(ArchivePolicy(1, 2), NEWEST_ONLY))
    return cleaned.count("deleted"), [i.fate.value for i in archived].count("archived")


def write(world: World, *values: int) -> None:
    for value in values:
        world.upsert({"k": str(value)})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("start", ["latest", "2001-01-01"])
@pytest.mark.parametrize("again", [False, True], ids=["running", "started again"])
def test_nothing_goes_while_the_first_batch_is_read(
    new_world: Callable[..., World], version: int, start: str, again: bool
) -> None:
    world = new_world(version)
    write(world, 1, 2)
    stream, place = streaming(world, start)
    end = stream.next(place, True, None).end
    assert isinstance(end, StreamOffset)
    if again:
        stream.stop()
        stream, _ = streaming(world, start)
        stream.plan(place, end, stream.table_schema())
    write(world, 3, 4, 5)
    deleted, archived = services(world)
    if start == "latest":
        assert (deleted, archived) == (1, 1), "what came before its place is not the stream's"
    else:
        assert (deleted, archived) == (0, 0)
    stream.stop()
    assert services(world)[0] > 0
