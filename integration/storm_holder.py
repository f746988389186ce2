"""A reader of a storm that takes long: it holds one state of the table and reads it twice.

``python -m integration.storm_holder SPEC-JSON`` asks the planner as Spark's scans do, and is a long
query for the keeper of leases. It reads the files of its plan, waits, and reads the same files
again. It tells of each look in JSON lines on stdout, begins when it gets a line on stdin, and ends
when the file ``until`` is there.
"""

from __future__ import annotations

import json
import random
import sys
import traceback
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from integration.killed_writer import module
from integration.peers.process import claim_stdout
from integration.storm_check import Row, rows_in, seen_rows
from integration.storm_reader import forget_everything
from integration.storm_writer import NoSpark, Spec, runtime_without_spark
from pyhudi.application.runtime import Runtime
from pyhudi.clock import SystemClock
from pyhudi.errors import HudiError, TableCorrupt
from pyhudi.format.instants import Action
from pyhudi.format.table_config import TableType
from pyhudi.reads.lease_keeper import LeaseKeeper
from pyhudi.reads.pins import Pinned, PinnedQueries
from pyhudi.reads.scan import Query, open_query
from pyhudi.reads.scan_plan import plan_scan

LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class HolderSpec:
    """What one reader does; a query is a long one after ``long_s``, and lasts ``hold_s`` or more.

    Without ``leased`` no keeper of leases knows of its queries.
    """

    root: str
    hadoop: dict[str, str]
    seed: str
    reader: int
    long_s: float
    hold_s: float
    until: str
    leased: bool = True
    first: int = 0


@dataclass(slots=True)
class Running(NoSpark):
    """Spark's jobs as the keeper of leases sees them: one query, since some moment."""

    clock: SystemClock
    pin: str = ""
    since: float = field(default=0.0)

    def begin(self, pin: str) -> None:
        self.since, self.pin = self.clock.monotonic(), pin

    def reading(self, seconds: float) -> list[str]:
        long = self.clock.monotonic() - self.since >= seconds
        return [self.pin] if self.pin and long else []


class Holder:
    """One reader and what it knows."""

    def __init__(self, spec: HolderSpec) -> None:
        keeping = module("pyhudi.reads.lease_keeper")
        keeping.LONG_S = keeping.PAUSE_S = spec.long_s
        self.clock = SystemClock()
        self.spec, self.jobs = spec, Running(self.clock)
        given = Spec(spec.root, {}, spec.hadoop, 0.0, spec.seed, 0, 1, 0, 0)
        made = runtime_without_spark(given, lambda *_, **__: None)
        self.runtime: Runtime = replace(made, jobs=self.jobs)
        self.keeper = LeaseKeeper(self.runtime)

    def look(self, hold_s: float, tell: Any) -> None:
        """One query of ``hold_s`` seconds, as events."""
        spec, storage = self.spec, self.runtime.storage(self.spec.root)
        forget_everything(storage)
        begun_ms = self.clock.now_ms()
        pins = PinnedQueries(self.runtime)
        query = open_query(self.runtime, spec.root, {}, {})
        pin = pins.pin(query)
        if spec.leased:
            self.keeper.note(pin, query)
        self.jobs.begin(pin)
        try:
            pinned = Pinned(pin, spec.root, {}, {}, query.instant)
            held, (paths, first) = pins.ask(pinned, lambda it: (it, self._read(it)))
            tell("holding", instant=query.instant)
            ends = self.clock.monotonic() + hold_s
            while self.clock.monotonic() < ends and not Path(spec.until).exists():
                self.clock.sleep(LOOK_EVERY_S)
            # As tasks do: the planner is asked no more.
            same = (paths, first) == self._read(held)
        finally:
            self.jobs.pin = ""
        timeline, table = query.timeline, query.table
        view = table.view(table.timeline())
        newest = {file.path for each in view.slices() for file in each.files}
        tell(
            "look",
            begun_ms=begun_ms,
            commits=[i.time for i in timeline.commits],
            pending=[i.time for i in timeline.pending],
            saved=[i.time for i in timeline.completed if i.action is Action.SAVEPOINT],
            rows=first,
            same=same,
            replaced=len(set(paths) - newest),
        )

    def _read(self, query: Query) -> tuple[list[str], list[Row]]:
        """The files of the query's state and their rows, read from storage."""
        if query.table.config.table_type is TableType.COPY_ON_WRITE:
            plan = plan_scan(query, [])
            paths = [path.partition(self.spec.root)[2].lstrip("/") for path, *_ in plan.files or ()]
            return paths, sorted(rows_in(query.table.storage, paths))
        query.merged.clear()
        self.runtime.log_memory.__init__()  # type: ignore[misc]
        paths = [file.path for each in query.slices(()) for file in each.files]
        try:
            return paths, list(seen_rows(query))
        except TableCorrupt as error:
            # A log of the state has gone; a base file that has is a FileNotFoundError.
            raise FileNotFoundError(str(error)) from error


def run(spec: HolderSpec, answers: TextIO) -> None:
    """Look, once a line on stdin says so, until all is done or this process is killed."""
    number = spec.first

    def tell(event: str, **more: Any) -> None:
        answers.write(json.dumps({"event": event, "number": number, **more}) + "\n")
        answers.flush()

    lots = random.Random(f"{spec.seed}/{spec.reader}/{spec.first}/holder")
    holder = Holder(spec)
    tell("ready")
    sys.stdin.readline()
    for number in count(spec.first):  # noqa: B007
        if Path(spec.until).exists():
            break
        try:
            holder.look(spec.hold_s * (1 + lots.random()), tell)
        except FileNotFoundError as error:
            tell("lost", text=str(error))
        except HudiError as error:
            tell("refused", text=f"{type(error).__name__}: {error}")
            holder.clock.sleep(LOOK_EVERY_S)
        except Exception:
            tell("broken", text=traceback.format_exc())
    tell("end")


if __name__ == "__main__":
    run(HolderSpec(**json.loads(sys.argv[1])), claim_stdout())
