"""Random histories: the view that moves on by metadata equals a fresh listing, at every instant."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, State
from pyhudi.timeline.view import FileSystemView, advance
from tests.timeline.bare import Bare, t
from tests.timeline.test_view import facts

GROUPS = st.sampled_from(["g1", "g2", "g3"])
PARTITIONS = st.sampled_from(["", "p", "q/r"])


class Histories(RuleBasedStateMachine):
    """Commits and replaces by several writers; some fail, some end late; old ones are archived."""

    @initialize(layout=st.sampled_from([1, 2]))
    def begin(self, layout: int) -> None:
        self.bare = Bare(layout)
        self.clock = 100
        self.pending: list[int] = []
        self.moving: FileSystemView | None = None
        self.files: dict[int, list[object]] = {}
        self.model: dict[tuple[str, str], int] = {}

    def tick(self) -> int:
        self.clock += 10
        return self.clock

    @rule(writes=st.sets(st.tuples(PARTITIONS, GROUPS), max_size=3))
    def start(self, writes: set[tuple[str, str]]) -> None:
        """A writer begins, and its files are there at once, those of two attempts each."""
        time = self.tick()
        self.bare.put(Action.COMMIT, State.INFLIGHT, time)
        self.pending.append(time)
        self.files[time] = [
            (self.bare.file(g, time, p, "0-0-1"), self.bare.file(f"stray{g}", time, p))
            for p, g in sorted(writes)
        ]

    @rule(which=st.integers(0, 3))
    def complete(self, which: int) -> None:
        if self.pending:
            time = self.pending.pop(which % len(self.pending))
            pairs = self.files.pop(time)
            self.bare.storage.delete([stray.path for _, stray in pairs])  # type: ignore[misc]
            named = [stat for stat, _ in pairs]  # type: ignore[misc]
            self.bare.commit(time, *named, done=self.tick())

    @rule(which=st.integers(0, 3))
    def roll_back(self, which: int) -> None:
        if self.pending:
            time = self.pending.pop(which % len(self.pending))
            pairs = self.files.pop(time)
            self.bare.storage.delete([s.path for pair in pairs for s in pair])  # type: ignore[attr-defined]
            self.bare.undo(time)
            self.bare.put(Action.ROLLBACK, State.COMPLETED, self.tick())

    @rule(groups=st.sets(st.tuples(PARTITIONS, GROUPS), min_size=1, max_size=4))
    def replace(self, groups: set[tuple[str, str]]) -> None:
        replaced: dict[str, tuple[FileId, ...]] = {}
        there = {(f.partition_path, f.file_id) for f in self.bare.view().latest()}
        for partition, group in sorted(groups & there):
            replaced[partition] = (*replaced.get(partition, ()), FileId(group))
        time = self.tick()
        self.bare.replace(time, replaced, self.bare.file(f"new{time}", time))

    @rule(saved=st.booleans())
    def archive_the_oldest(self, saved: bool) -> None:
        """Replaced groups are cleaned before their replace may be archived."""
        timeline = self.bare.timeline()
        if len(timeline.instants) > 4:
            oldest = timeline.instants[0]
            if oldest.action is Action.COMMIT and oldest.state is State.COMPLETED:
                if saved and not any(i.action is Action.SAVEPOINT for i in timeline.instants):
                    time = int(oldest.time[-5:])
                    self.bare.put(Action.SAVEPOINT, State.COMPLETED, time, self.tick())
                else:
                    self.bare.undo(int(oldest.time[-5:]))

    @rule()
    def clean(self) -> None:
        self.bare.put(Action.CLEAN, State.COMPLETED, self.tick())

    @rule()
    def look(self) -> None:
        """The long-lived process looks now and then, as its cache does."""
        timeline = self.bare.timeline()
        moved = advance(self.moving, timeline) if self.moving is not None else None
        self.moving = moved or self.bare.view()
        assert facts(self.moving)[0] == facts(self.bare.view())[0]  # type: ignore[index]

    @invariant()
    def only_settled_files_are_seen(self) -> None:
        if hasattr(self, "bare"):
            pending = {t(time) for time in self.pending}
            for file in self.bare.view().latest():
                assert file.instant not in pending
                assert self.bare.storage.exists(file.path)


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
