"""A stream's driver without Spark: the product's own ``write_table``, a batch at a time.

A checkpoint has what Spark keeps there: the query's id, a file for each batch before it is written,
and one after. Each life is a process that a server forks, which has everything imported; so a seed
with five lives takes seconds, where five JVMs would take a minute.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from integration.killed_writer import module
from integration.peers.process import LineProcess, claim_stdout, serve
from integration.peers.spark import child_environment
from integration.storm_writer import (
    Spec,
    compact_without_spark,
    runtime_without_spark,
    shorten_leases,
)
from integration.stream_driver import FAILED
from integration.stream_kills import ANSWERED, Storages, Trouble, answering, dies_when, troubles_of
from integration.stream_source import Source
from pyhudi.application.batches import MicroBatch, Turn
from pyhudi.application.runtime import Runtime
from pyhudi.clock import SystemClock
from pyhudi.config import resolve_write
from pyhudi.errors import HudiError
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.storage.open import open_storage
from pyhudi.tables.create import create_table, new_table_config
from pyhudi.writes.intent import Intent, Route
from pyhudi.writes.keys.expressions import PARTITION_PATH, RECORD_KEY
from pyhudi.writes.prepare import Prepared
from pyhudi.writes.write import write_table

FIELDS = ("k", "p", "v", "t")
COLUMNS = SparkSchema(tuple(map(Column, FIELDS, ("string", "string", "integer", "integer"))))
#: no task outlives a process that has none
DYING_S = 0.0


@dataclass(frozen=True, slots=True)
class WriterSpec:
    """One life; ``log`` takes what it says. ``spares_ms``: how long cleaned files stay."""

    root: str
    source: Source
    checkpoint: str
    deaths: str
    log: str
    options: dict[str, str]
    troubles: tuple[Trouble, ...] = ()
    lease_s: float = 8.0
    spares_ms: int = 60_000


class Checkpoint:
    """A folder as Spark keeps it for a query."""

    def __init__(self, folder: Path) -> None:
        self._offsets, self._commits = folder / "offsets", folder / "commits"
        for each in (self._offsets, self._commits):
            each.mkdir(parents=True, exist_ok=True)
        named = folder / "metadata"
        if not named.exists():
            named.write_text(SystemClock().uuid())
        self.query = named.read_text()

    def batches(self, end: int) -> Iterator[int]:
        """The batch that is to be done again, and those after it."""
        last = max((int(file.name) for file in self._offsets.iterdir()), default=-1)
        first = last if last >= 0 and not (self._commits / str(last)).exists() else last + 1
        for number in range(first, end):
            (self._offsets / str(number)).touch()
            yield number
            (self._commits / str(number)).touch()


def runtime_of(root: str, options: dict[str, str]) -> Runtime:
    """The planner's surroundings, without a JVM."""
    spec = Spec(root, options, {}, 0.0, "", 0, 1, 0, 0)
    return runtime_without_spark(spec, lambda *_, **__: None)


def make_table(root: str, options: dict[str, str]) -> None:
    """The table, which a stream of Spark's makes by its first batch."""
    runtime, resolved = runtime_of(root, options), resolve_write(options, None, {})
    config = new_table_config(root, resolved, COLUMNS, record_schema=False)
    create_table(runtime, runtime.storage(root), config, resolved)


def prepare(rows: pa.Table, *_: object) -> Prepared:
    """In place of the product's step that asks Spark of a DataFrame."""
    keyed = rows.append_column(RECORD_KEY, rows["k"]).append_column(PARTITION_PATH, rows["p"])
    return Prepared(cast(Any, keyed), COLUMNS, COLUMNS.arrow(), FIELDS, False)


def rows_of(source: Source, number: int) -> pa.Table:
    """A batch as an Arrow table."""
    rows = source.batch(number)
    numbers = pa.array([number] * len(rows), pa.int32())
    keys, places = [k for k, _, _ in rows], [p for _, p, _ in rows]
    return pa.table({"k": keys, "p": places, "v": numbers, "t": numbers})


def stream(spec: WriterSpec) -> None:
    """Write all batches that Spark would not take for done."""
    shorten_leases(spec.lease_s)
    module("pyhudi.transactions.recovery.settle").DYING_S = DYING_S
    module("pyhudi.services.clean").SPARED_MS = spec.spares_ms
    module("pyhudi.writes.write").prepare = prepare
    compact_without_spark()
    storages = Storages(open_storage, spec.troubles, spec.deaths)
    runtime = replace(runtime_of(spec.root, spec.options), storage=lambda root: storages(root, {}))
    write = write_table
    if answer := dies_when(spec.troubles, ANSWERED):
        write = answering(write_table, answer.at, spec.deaths)
    checkpoint, run = Checkpoint(Path(spec.checkpoint)), SystemClock().uuid()
    for number in checkpoint.batches(spec.source.files):
        with runtime.ordinals.turn(spec.root, MicroBatch(checkpoint.query, run, number)) as turn:
            assert isinstance(turn, Turn)
            write(
                runtime, cast(Any, rows_of(spec.source, number)), spec.root, spec.options, {},
                lambda exists: Intent(Route.SAVE), written_by=turn,
            )  # fmt: skip


def _live(spec: WriterSpec) -> None:
    """The whole of a forked process."""
    code = 1
    try:
        log = os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in (1, 2):
            os.dup2(log, number)
        stream(spec)
        code = 0
    except HudiError:
        traceback.print_exc()
        code = FAILED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def live(spec: dict[str, Any], kill_after_s: float | None) -> int:
    """One life in a process of its own, killed after some seconds at the latest; its exit code."""
    source, troubles = Source(**spec.pop("source")), troubles_of(spec.pop("troubles"))
    given = WriterSpec(source=source, troubles=troubles, **spec)
    pid = os.fork()
    if not pid:
        _live(given)
    if kill_after_s is not None:
        until = time.monotonic() + kill_after_s
        while not (ended := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < until:
            time.sleep(0.005)
        if ended[0]:
            return os.waitstatus_to_exitcode(ended[1])
        with Path(given.deaths).open("a") as kept:
            kept.write("at (any moment)\n")
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Forks:
    """A process that has everything imported and forks lives, one at a time."""

    def __init__(self, log: Path) -> None:
        command = [sys.executable, "-m", "integration.stream_writer"]
        self._process = LineProcess("forks", command, child_environment(sys.executable), log)

    def close(self) -> None:
        """End it."""
        self._process.close()

    def live(self, spec: WriterSpec, kill_after_s: float | None = None) -> int:
        """``live`` in that process."""
        code: int = self._process.call("live", spec=asdict(spec), kill_after_s=kill_after_s)
        return code


if __name__ == "__main__":
    serve(claim_stdout(), {"live": live})
