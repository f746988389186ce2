"""The shim's questions of streams; their state is only what can be found again."""

from __future__ import annotations

import threading

from pyhudi.application.runtime import Runtime
from pyhudi.config import resolve_read
from pyhudi.errors import ConfigError
from pyhudi.format.change_log import AFTER
from pyhudi.format.instants import InstantTime
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.reads.stream_offsets import StreamOffset, parse_offset
from pyhudi.reads.streams import Stream
from pyhudi.spark import stream_protocol as protocol
from pyhudi.spark.change_rows import change_rows, log_rows_of, merging
from pyhudi.spark.questions import Target
from pyhudi.spark.sessions import JavaObject, Sessions
from pyhudi.timeline.read_states import ReadState


class StreamHandlers:
    """The streams of one application, by the ids of the shim; safe to share between threads."""

    QUESTIONS = "begin_stream next_batch plan_batch read_up_to end_stream"

    def __init__(self, sessions: Sessions, runtime: Runtime) -> None:
        self._sessions = sessions
        self._runtime = runtime
        self._streams: dict[str, Stream] = {}
        self._lock = threading.Lock()

    def begin_stream(self, at: Target, ask: protocol.BeginStream) -> protocol.Begun:
        # Not kept yet: if another source of its query cannot begin, Spark stops none of them.
        stream = self._made(at, ask.pin, ask.instant)
        place, newest = stream.begin()
        return protocol.Begun(place.render(), stream.limits.any, newest.render())

    def next_batch(self, at: Target, ask: protocol.NextBatch) -> protocol.BatchEnd:
        stream = self._stream(at, ask.stream, ask.pin, ask.instant)
        until = None if ask.until is None else _place(ask.until)
        found = stream.next(parse_offset(ask.start), ask.limited, until)
        return protocol.BatchEnd(
            None if found.end is None else found.end.render(),
            None if found.newest is None else found.newest.render(),
            found.backlog.metrics(),
        )

    def plan_batch(
        self, holder: JavaObject, at: Target, ask: protocol.PlanBatch
    ) -> protocol.BatchPlan:
        """Gives the ``HudiChangeRows`` that asks a DataFrame of the rows that workers read."""
        stream = self._stream(at, ask.stream, ask.pin, ask.instant)
        wanted = SparkSchema.parse(ask.schema)
        elsewhere = merging(self._sessions, self._runtime)
        batch = stream.plan(parse_offset(ask.start), _place(ask.end), wanted, elsewhere)
        rows_of = batch.query.rows if batch.query is not None else None
        if batch.pieces is not None:
            spark = self._sessions.asking()
            rows = change_rows(spark, batch.pieces, stream.changes_for(wanted))
            if stream.options.appends_only:
                rows = rows.select(f"{AFTER}.*")
            holder.take(rows._jdf)
        elif batch.logs is not None:
            spark = self._sessions.asking()
            holder.take(log_rows_of(spark, batch.logs, wanted, rows_of)._jdf)
        return protocol.BatchPlan(batch.files, rows_of, batch.logs is not None)

    def read_up_to(self, at: Target, ask: protocol.ReadUpTo) -> None:
        self._stream(at, ask.stream, ask.pin, ask.instant).commit(_place(ask.end))

    def end_stream(self, at: Target, ask: protocol.EndStream) -> None:
        with self._lock:
            stream = self._streams.pop(ask.stream, None)
        if stream is not None:
            stream.stop()

    def close(self) -> None:
        """End the leases of streams that Spark has not ended, as when its session was stopped."""
        with self._lock:
            left = list(self._streams.values())
            self._streams.clear()
        for stream in left:
            stream.stop()

    def _stream(self, at: Target, name: str, pin: str, instant: str | None) -> Stream:
        with self._lock:
            known = self._streams.get(name)
            if known is None:
                known = self._streams[name] = self._made(at, pin, instant)
            return known

    def _made(self, at: Target, pin: str, instant: str | None) -> Stream:
        options = resolve_read(at.options, at.session)
        seen = None
        if instant is not None:
            _, layout, last = pin.split("-")
            seen = ReadState(InstantTime(instant), int(layout), last)
        return Stream(self._runtime, at.root, options, seen)


def _place(text: str) -> StreamOffset:
    """The end of a batch; ``ConfigError`` for a beginning, which is none."""
    found = parse_offset(text)
    if not isinstance(found, StreamOffset):
        raise ConfigError(f"{text} is no end of a batch", key="checkpointLocation")
    return found
