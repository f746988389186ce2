"""A reader that follows a table in memory as Spark does, and keeps what it was given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyhudi.config import resolve_read
from pyhudi.format.instants import InstantTime
from pyhudi.reads.pins import pin_of
from pyhudi.reads.scan import open_query
from pyhudi.reads.stream_offsets import Offset, StreamOffset, parse_offset
from pyhudi.reads.streams import Next, Stream
from pyhudi.timeline.read_states import ReadState
from pyhudi.timeline.view import VIEWS
from tests.reads.changing_table import Changing, time

LIMIT_FILES, LIMIT_ROWS = "maxFilesPerTrigger", "maxRowsPerTrigger"
START = "hoodie.datasource.streaming.startOffset"

#: key, value, number of the commit
Given = tuple[str, int, int]


@dataclass(slots=True)
class Follower:
    """Follows ``table``; its checkpoint is the offsets, which outlive each ``restart``."""

    table: Changing
    options: Mapping[str, str] = field(default_factory=dict)
    offsets: list[str] = field(default_factory=list)
    batches: list[list[Given]] = field(default_factory=list)
    stream: Stream = field(init=False)

    def __post_init__(self) -> None:
        self.restart()
        if not self.offsets:
            self.offsets.append(self.stream.begin()[0].render())

    def restart(self, options: Mapping[str, str] | None = None) -> None:
        """A new process goes on with the same checkpoint."""
        if options is not None:
            self.options = options
        VIEWS.forget_all()
        world = self.table.world
        query = open_query(world.runtime, world.root, self.options, {})
        seen = None
        if query.instant is not None:
            seen = ReadState(query.instant, world.layout, pin_of(query).rpartition("-")[2])
        self.stream = Stream(world.runtime, world.root, resolve_read(self.options), seen)

    @property
    def place(self) -> Offset:
        return parse_offset(self.offsets[-1])

    def ahead(self, until: StreamOffset | None = None, limited: bool = True) -> Next:
        return self.stream.next(self.place, limited, until)

    def batch(self, until: StreamOffset | None = None, limited: bool = True) -> bool:
        """Reads the next batch; False if there is none."""
        end = self.ahead(until, limited).end
        if end is None or end.render() == self.offsets[-1]:
            return False
        assert isinstance(end, StreamOffset)
        before = self.place
        if isinstance(before, StreamOffset):
            assert before.rank < end.rank
        start, self.offsets = self.place, [*self.offsets, end.render()]
        given = self.rows(start, end)
        assert given == self.rows(start, end), "a batch that is planned again is the same"
        self.batches.append(given)
        self.stream.commit(end)
        return True

    def all(self) -> list[list[Given]]:
        """Reads what there is; the batches of this call."""
        count = len(self.batches)
        while self.batch():
            pass
        return self.batches[count:]

    def rows(self, start: Offset, end: StreamOffset) -> list[Given]:
        planned = self.stream.plan(start, end, self.stream.table_schema())
        if planned.files is None or planned.query is None:
            return []
        counted = planned.query.rows
        found: list[Given] = []
        root = f"{self.table.world.root}/"
        for path, *_ in planned.files.files or ():
            for key, (value, commit) in self.table.contents[path.removeprefix(root)].items():
                at = time(commit)
                if counted is None or at in counted.commits or _above(at, counted.above):
                    found.append((key, value, commit))
        return sorted(found)


def _above(at: InstantTime, above: InstantTime | None) -> bool:
    return above is not None and at > above
