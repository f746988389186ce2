"""A stream of a table: which commits its next batch takes, and which files that batch reads.

Invariants: batches follow each other without a gap, and each commit is in one of them, but for
those that a late restart joins; a batch is the same whenever it is planned again. What a stream has
not read stays in the table while it runs (``stream_lease.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pyhudi.application.runtime import Runtime
from pyhudi.choices import ChangeForm
from pyhudi.config import ReadOptions
from pyhudi.errors import ConfigError, HistoryExpired, SchemaConflict
from pyhudi.format.change_log import AFTER
from pyhudi.format.instants import Instant, InstantTime, parse_as_of
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.reads.change_data import pieces_of, plan_pieces
from pyhudi.reads.change_slices import Group
from pyhudi.reads.incremental import EARLIEST, Changes, Range, changes
from pyhudi.reads.log_slices import Elsewhere
from pyhudi.reads.scan import Query
from pyhudi.reads.stream_admission import BatchLimits, Load, admitted, cut
from pyhudi.reads.stream_backlog import Backlog, backlog_of
from pyhudi.reads.stream_batches import Batch, BatchColumns
from pyhudi.reads.stream_lease import StreamLease
from pyhudi.reads.stream_look import StreamLook, StreamStep, look, look_back, looking_again
from pyhudi.reads.stream_offsets import (
    Beginning,
    Offset,
    StreamOffset,
    in_snapshot,
    just_before,
)
from pyhudi.reads.stream_refusals import (
    START,
    archived_away,
    check_known,
    check_options,
    cleaned_away,
    refuse_hidden,
    refuse_table,
    state_gone,
)
from pyhudi.reads.stream_rows import (
    among,
    changed_groups,
    digest_of,
    inserts_only,
    listed_files,
    loads_of,
    needed_files,
    only_inserted,
    snapshot_pieces,
)
from pyhudi.reads.stream_schema import differs, schema_barrier
from pyhudi.slices.files import FileSlice
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.completion_order import default_order
from pyhudi.timeline.read_states import ReadState, completed
from pyhudi.timeline.schema import schema_of
from pyhudi.timeline.tail import ARCHIVED_TIMES
from pyhudi.timeline.time_travel import check_history


@dataclass(frozen=True, slots=True)
class Next:
    """The end of the next batch, None for none; the newest place, and what is behind ``end``."""

    end: Offset | None
    newest: Offset | None
    backlog: Backlog


@dataclass(slots=True)
class _Held:
    """What a stream keeps between its questions; all of it can be found again."""

    schema: SparkSchema | None = None
    snapshot: tuple[StreamOffset, Query] | None = None
    lease: StreamLease | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """One running query's reading of one table.

    ``seen`` is the state in which the table was described at its start, None without commits.
    """

    runtime: Runtime
    root: str
    options: ReadOptions
    seen: ReadState | None
    _held: _Held = field(default_factory=_Held, init=False, repr=False, compare=False)

    # ---- the questions of Spark

    def begin(self) -> tuple[Offset, StreamOffset]:
        """The place of a stream that has no checkpoint, and the newest place now.

        ``ConfigError`` and ``UnsupportedTable`` for options and tables that no stream can have.
        """
        check_options(self.options)
        found = look(self.storage, self.options.order, default_order)
        refuse_table(found)
        newest = found.place(found.newest or InstantTime(""))
        text = self.options.start_offset.strip()
        for each in Beginning:
            if text.lower() == each.value:
                return each, newest
        if EARLIEST.fullmatch(text):
            return Beginning.EARLIEST, newest
        return StreamOffset(found.order, parse_as_of(text, found.table.config.utc, START)), newest

    def next(self, start: Offset, limited: bool, until: StreamOffset | None) -> Next:
        """The end of the batch that begins at ``start``; ``until`` is where the query will stop.

        ``SchemaConflict`` if the next commit has other columns than the stream, ``HistoryExpired``
        if what comes next has been archived or cleaned.
        """
        return looking_again(lambda: self._next(start, limited, until))

    def _next(self, start: Offset, limited: bool, until: StreamOffset | None) -> Next:
        found = self._look(start)
        if isinstance(start, StreamOffset):
            check_known(found, start)
        limits = self.limits if limited else BatchLimits()
        end = self._end(found, start, limits, until)
        newest = found.place(found.newest) if found.newest is not None else None
        place = end if end is not None else start
        rest = self._rest_of_snapshot(found, place)
        now_ms = self.runtime.clock.now_ms()
        return Next(end, newest, backlog_of(found, place, rest, now_ms))

    def plan(
        self,
        start: Offset,
        end: StreamOffset,
        schema: SparkSchema,
        elsewhere: Elsewhere | None = None,
    ) -> Batch:
        """What the batch between two places reads; errors of ``next``.

        Many logs are merged ``elsewhere``.
        """
        wanted = BatchColumns(schema, elsewhere)
        return looking_again(lambda: self._plan(start, end, wanted))

    def _plan(self, start: Offset, end: StreamOffset, wanted: BatchColumns) -> Batch:
        found = look_back(self.storage, end.order, end.at)
        check_known(found, end)
        if start is Beginning.LATEST:
            self._hold(found, end)
            return Batch()
        if in_snapshot(start, end):
            return self._plan_snapshot(found, start, end, wanted)
        assert isinstance(start, StreamOffset)
        self._hold(found, start)
        return self._plan_commits(found, start, end, wanted)

    def commit(self, end: StreamOffset) -> None:
        """All up to ``end`` has been read and written: it need not be kept any more."""
        if end.whole:
            self._held.snapshot = None
        self._hold(look_back(self.storage, end.order, end.at), end)

    def stop(self) -> None:
        """The query has ended."""
        if self._held.lease is not None:
            self._held.lease.end()

    def changes_for(self, schema: SparkSchema) -> SparkSchema:
        """The columns of change data that hold those of ``schema``."""
        return SparkSchema((Column(AFTER, schema.json()),)) if self.options.appends_only else schema

    # ---- where a batch ends

    @property
    def storage(self) -> Storage:
        """The table's."""
        return self.runtime.storage(self.root)

    @property
    def limits(self) -> BatchLimits:
        """The most that one batch may read."""
        options = self.options
        return BatchLimits(options.trigger_files, options.trigger_bytes, options.trigger_rows)

    def _look(self, start: Offset) -> StreamLook:
        order = self.options.order
        if isinstance(start, StreamOffset):
            if order is not None and order is not start.order:
                raise ConfigError(
                    f"The checkpoint follows the table by '{start.order.value}' times, and "
                    f"hoodie.datasource.read.incr.order is '{order.value}'. Leave it out, or start "
                    "the query with another checkpoint location.",
                    key="hoodie.datasource.read.incr.order",
                )
            order = start.order
        return look(self.storage, order, default_order)

    def _end(
        self, found: StreamLook, start: Offset, limits: BatchLimits, until: StreamOffset | None
    ) -> Offset | None:
        if isinstance(start, Beginning):
            at = until.at if until is not None else found.newest
            if start is Beginning.LATEST:
                self._hold_at(found, at or InstantTime(""))
                return found.place(at or InstantTime(""))
            if not at:
                return None
            self._check_schema(found, found.between(InstantTime(""), at))
            self._hold_at(found, at)
            return self._part_of_snapshot(found, found.reached(start, at, 0), limits)
        self._hold(found, start)
        if start.snapshot is not None and not start.whole:
            return self._part_of_snapshot(found, start, limits)
        if not start.whole:
            files = self._files_at(found, start)
            return replace(start, files=cut([*files.values()], start.files or 0, limits))
        steps = found.between(start.at, until.at if until else None)
        least = self._least_end(found, start, steps)
        if least is not None:
            end: tuple[InstantTime, int | None] | None = (least, None)
        else:
            known, form = self._known_steps(found, steps), self.options.change_form
            end = admitted((found.ahead(step, form) for step in known), limits)
        if end is None:
            return start
        if self._of_each_change:
            self._check_kept(found, start, found.between(start.at, end[0]))
        return found.reached(start, *end)

    def _check_kept(
        self, found: StreamLook, start: StreamOffset, steps: Sequence[StreamStep]
    ) -> None:
        """``HistoryExpired`` if a clean has taken a file that the changes of ``steps`` need."""
        state = found.state(start.at)
        if state is None:
            return
        try:
            check_history(found.table, found.timeline, state.instant)
        except HistoryExpired as expired:
            commits = [c for s in steps for c in s.commits]
            known = Changes(None, found.timeline, None, None, tuple(commits))
            query = self._query(found, known, steps[-1].at)
            try:
                wanted = needed_files(pieces_of(query, commits, ()))
                lost = wanted - listed_files(self.storage, wanted)
            except HistoryExpired:
                lost = {"an older version of a file"}
            if lost:
                first = next(
                    (c for c in found.timeline.commits if c.time == expired.earliest), None
                )
                earliest = found.key(first) if first is not None else found.newest
                raise cleaned_away(found, start, min(lost), earliest) from expired

    def _least_end(
        self, found: StreamLook, start: StreamOffset, steps: Sequence[StreamStep]
    ) -> InstantTime | None:
        """The first end that can be read, if that is not simply the next commit.

        Commits may be archived, and versions of files cleaned, that a stream has not read: nobody
        knows of its place while it does not run. The newest state of the changed rows can be read
        nevertheless, by a batch that joins several commits.
        """
        if not steps:
            return None
        archived = ARCHIVED_TIMES.newest(found.table, found.order)
        passed = archived is not None and archived > start.at
        if self._of_each_change:
            if passed:
                raise archived_away(found, start)
            return None
        if not passed:
            with suppress(HistoryExpired):
                self._changes(found, start.at, steps[0].at)
                return None
        steps = [*self._known_steps(found, steps)]
        ends = [s.at for s in steps if archived is None or s.at > archived]
        first = ends[0] if ends else steps[-1].at
        least = ""
        for at in (first, *ends[1:]):
            if at < least and at != ends[-1]:
                continue
            try:
                self._changes(found, start.at, at)
            except HistoryExpired as expired:
                if not ends or at == ends[-1]:
                    raise
                least = expired.earliest or ""
                continue
            return at if passed or at != steps[0].at else None
        return None

    @property
    def _of_each_change(self) -> bool:
        """Whether each change counts, not only the state after several."""
        options = self.options
        return options.appends_only or options.change_form is not ChangeForm.LATEST_STATE

    # ---- columns

    def _is_newer(self, found: StreamLook, commit: Instant) -> bool:
        """Whether a commit completed after the stream was started."""
        seen = self.seen
        if seen is None:
            return True
        if seen.layout != found.timeline.layout:
            return commit.time > seen.instant
        return completed(found.timeline, commit) > seen.last

    def table_schema(self, found: StreamLook | None = None) -> SparkSchema:
        """The columns of the table when the stream was started."""
        if self._held.schema is None:
            found = found or look(self.storage, None, default_order)
            then = found.without(lambda commit: self._is_newer(found, commit))
            self._held.schema = Query(self.runtime, found.table, then, None, self.options).schema()
        return self._held.schema

    def _known_steps(self, found: StreamLook, steps: Sequence[StreamStep]) -> Iterator[StreamStep]:
        """The steps before the first that has other columns; its error if it is the first."""
        for number, step in enumerate(steps):
            try:
                self._check_schema(found, (step,))
            except SchemaConflict:
                if number == 0:
                    raise
                return
            yield step

    def _check_schema(self, found: StreamLook, steps: Sequence[StreamStep]) -> None:
        for commit in (c for s in steps for c in s.commits):
            # A compaction declares the columns of its plan, which may be older, and changes none.
            if self._is_newer(found, commit) and not found.moves_rows(commit):
                theirs = schema_of(found.table, found.timeline, commit)
                ours = self.table_schema(found)
                if theirs is not None and differs(ours, theirs):
                    raise schema_barrier(found.table.config.name, commit, ours, theirs)

    # ---- leases

    def _hold(self, found: StreamLook, place: StreamOffset) -> None:
        at = place.at
        if not place.whole and place.snapshot is None:
            at = found.before(at) or InstantTime("")
        self._hold_at(found, at)

    def _hold_at(self, found: StreamLook, at: InstantTime) -> None:
        if self._held.lease is None:
            self._held.lease = StreamLease(self.storage, self.runtime.clock)
        self._held.lease.move(found.state(at) or found.before_all())

    # ---- the snapshot at the beginning

    def _part_of_snapshot(
        self, found: StreamLook, start: StreamOffset, limits: BatchLimits
    ) -> StreamOffset:
        query, slices = self._snapshot(found, start)
        files = cut(loads_of(query, slices), start.files or 0, limits)
        return replace(start, files=files, snapshot=digest_of(query, slices))

    def _snapshot(self, found: StreamLook, place: StreamOffset) -> tuple[Query, list[FileSlice]]:
        """The state at a place and its files in order; ``HistoryExpired`` if one has gone."""
        held = self._held.snapshot
        if held is None or (held[0].order, held[0].at) != (place.order, place.at):
            checked = place.snapshot is None
            known = self._changes(found, None, place.at, checked=checked)
            query = self._query(found, known, place.at)
            self._held.snapshot = held = (place, query)
        query = held[1]
        try:
            slices = query.slices(())
        except HistoryExpired:
            if place.snapshot is None:
                raise
            slices = []
        if place.snapshot is not None and place.snapshot != digest_of(query, slices):
            self._held.snapshot = None
            raise state_gone(found, place)
        return query, slices

    def _rest_of_snapshot(self, found: StreamLook, place: Offset) -> Load:
        if not isinstance(place, StreamOffset) or place.snapshot is None or place.whole:
            return Load()
        query, slices = self._snapshot(found, place)
        return sum(loads_of(query, slices)[place.files or 0 :], Load())

    def _plan_snapshot(
        self, found: StreamLook, start: Offset, end: StreamOffset, wanted: BatchColumns
    ) -> Batch:
        self._hold_at(found, end.at)
        query, slices = self._snapshot(found, end)
        first = start.files or 0 if isinstance(start, StreamOffset) else 0
        part = slices[first : end.files]
        if not part:
            return Batch()
        if self.options.change_form is not ChangeForm.LATEST_STATE:
            pieces = plan_pieces(query, wanted.schema, snapshot_pieces(query, part))
            return Batch(query, pieces=pieces)
        return wanted.of(query, part)

    # ---- the commits after it

    def _plan_commits(
        self, found: StreamLook, start: StreamOffset, end: StreamOffset, wanted: BatchColumns
    ) -> Batch:
        part = start.at == end.at or not end.whole
        begin = just_before(end.at) if part else start.at
        steps = found.between(begin, end.at)
        commits = [c for s in steps for c in s.commits]
        archived = ARCHIVED_TIMES.newest(found.table, found.order)
        passed = archived is not None and archived > begin and not (part and steps)
        if passed and self._of_each_change:
            raise archived_away(found, start)
        told = any(found.files(c) or found.metadata(c).replaced for c in commits)
        if steps and not passed and not told:
            return Batch()
        self._check_schema(found, steps)
        first, last = (start.files or 0 if start.at == end.at else 0), end.files
        if self._of_each_change and not self._plain_inserts(found, commits):
            return self._plan_changes(found, commits, (first, last), end.at, wanted.schema)
        try:
            known = self._changes(found, begin, end.at)
        except HistoryExpired as expired:
            if expired.moved:
                raise
            # What a later commit has changed again comes with that commit.
            known = self._changes(found, begin, end.at, of_the_rest=True)
        query = self._query(found, known, end.at)
        slices = query.slices(())
        if first or last is not None:
            groups = [*self._files_at(found, end)]
            there = {(each.partition_path, each.file_id) for each in slices}
            if known.remains and (moved := set(groups) - there):
                raise cleaned_away(found, end, "{}/{}".format(*min(moved)), found.newest)
            slices = among(slices, groups[first:last])
        elif known.named is not None:  # archived commits do not say what they wrote
            slices = among(slices, changed_groups(found, commits))
        return wanted.of(query, slices)

    def _files_at(self, found: StreamLook, place: StreamOffset) -> dict[Group, Load]:
        """The files of the commit that a place is in the middle of."""
        files = found.files_at(place)
        if files is None or (self._of_each_change and found.step(place.at) is None):
            raise archived_away(found, place)
        return files

    def _plain_inserts(self, found: StreamLook, commits: Sequence[Instant]) -> bool:
        """Whether the rows that commits inserted are all that they changed, and are still there."""
        plain = self.options.change_form is ChangeForm.LATEST_STATE
        return plain and inserts_only([found.metadata(commit) for commit in commits])

    def _plan_changes(
        self,
        found: StreamLook,
        commits: Sequence[Instant],
        part: tuple[int, int | None],
        at: InstantTime,
        schema: SparkSchema,
    ) -> Batch:
        known = Changes(None, found.timeline, None, None, tuple(commits))
        query = self._query(found, known, at)
        if self.options.appends_only:
            refuse_hidden(self.table_schema(found), schema)
        filters = (only_inserted(),) if self.options.appends_only else ()
        wanted = self.changes_for(schema)
        pieces = list(pieces_of(query, commits, filters))
        if part != (0, None):
            pieces = pieces[part[0] : part[1]]
        return Batch(query, pieces=plan_pieces(query, wanted, pieces)) if pieces else Batch()

    # ---- both

    def _changes(
        self,
        found: StreamLook,
        begin: InstantTime | None,
        end: InstantTime,
        *,
        checked: bool = True,
        of_the_rest: bool = False,
    ) -> Changes:
        timeline = self._timeline(found, end)
        asked = Range(begin or None, end, found.order)
        return changes(found.table, timeline, asked, of_the_rest, checked)

    def _timeline(self, found: StreamLook, end: InstantTime) -> Timeline:
        """Without commits that the stream does not know, after the batch: its columns count."""
        return found.until(end, lambda commit: self._is_newer(found, commit))

    def _query(self, found: StreamLook, known: Changes, end: InstantTime) -> Query:
        timeline = self._timeline(found, end)
        return Query(self.runtime, found.table, timeline, None, self.options, known)
