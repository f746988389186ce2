"""A reader of a storm: a process that reads the whole table again and again and tells what it saw.

``python -m integration.storm_reader SPEC-JSON`` asks the planner as Spark's scans do: it describes
the table, takes the plan of the pinned query and reads the files of the plan, logs too. Every few
looks it travels to a commit of its own listing. It ends when its stdin does.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from integration.peers.process import claim_stdout
from integration.storm_check import Row, rows_in, seen_rows
from integration.storm_writer import Spec, runtime_without_spark
from pyhudi.application.runtime import Runtime
from pyhudi.errors import HistoryExpired, HudiError, TableCorrupt
from pyhudi.format.instants import Action
from pyhudi.format.table_config import TableType
from pyhudi.reads.pins import Pinned, PinnedQueries
from pyhudi.reads.scan import Query, open_query
from pyhudi.reads.scan_plan import plan_scan
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import COMMITS, LISTINGS
from pyhudi.timeline.view import VIEWS

TRAVELS = 3  # one look of so many is a travel in time


@dataclass(frozen=True, slots=True)
class ReaderSpec:
    """What one reader does; one without ``keeps`` forgets all that it knew before each look."""

    root: str
    hadoop: dict[str, str]
    seed: str
    reader: int
    keeps: bool
    every_s: float = 0.5


def forget_everything(storage: Storage) -> None:
    """As a new process: no listing, no commit and no view is known."""
    VIEWS.forget(storage)
    for cache in (COMMITS, LISTINGS):
        cache.__init__()  # type: ignore[misc]


def read_rows(runtime: Runtime, pins: PinnedQueries, root: str, query: Query) -> list[Row]:
    """All rows of the query as Spark would read them: by the plan of the pinned query."""
    pin = pins.pin(query)
    pinned = Pinned(pin, root, {}, {}, query.instant)
    if query.table.config.table_type is TableType.MERGE_ON_READ:
        return pins.ask(pinned, merged_rows)
    plan = pins.ask(pinned, lambda asked: plan_scan(asked, []))
    paths = [path.removeprefix("file:").removeprefix(root + "/") for path, *_ in plan.files]
    return rows_in(runtime.storage(root), paths)


def merged_rows(query: Query) -> list[Row]:
    """The rows of base files and logs; a file that has gone is a ``FileNotFoundError``."""
    try:
        return list(seen_rows(query))
    except TableCorrupt as error:
        if Path(query.table.storage.root, error.path).exists():
            raise
        raise FileNotFoundError(error.path) from error


def planned_paths(query: Query) -> list[str]:
    """The paths in the table of all files that the query reads."""
    if query.table.config.table_type is TableType.MERGE_ON_READ:
        return [file.path for each in query.slices(()) for file in each.files]
    root = query.table.storage.root
    return [path.partition(root)[2].lstrip("/") for path, *_ in plan_scan(query, []).files or ()]


def look(runtime: Runtime, pins: PinnedQueries, spec: ReaderSpec, as_of: str | None) -> Any:
    """One look at the table, as an event."""
    query = open_query(runtime, spec.root, {}, {}, as_of)
    rows = read_rows(runtime, pins, spec.root, query)
    timeline = query.timeline
    return {
        "event": "look",
        "as_of": as_of,
        "commits": [i.time for i in timeline.commits],
        "pending": [i.time for i in timeline.pending],
        "saved": [i.time for i in timeline.completed if i.action is Action.SAVEPOINT],
        "rows": rows,
    }


def still_planned(runtime: Runtime, root: str, path: str) -> bool:
    """Whether a fresh query would read a file that is not there, and say nothing of it."""
    planned = False
    for _ in range(3):
        forget_everything(runtime.storage(root))
        try:
            paths = planned_paths(open_query(runtime, root, {}, {}))
        except HudiError:
            continue
        planned = any(path.endswith(name) for name in paths)
        if not planned:
            break
    return planned


def run(spec: ReaderSpec, answers: TextIO) -> None:
    """Look until stdin ends."""
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    lots = random.Random(f"{spec.seed}/{spec.reader}/reader")
    given = Spec(spec.root, {}, spec.hadoop, 0.0, spec.seed, 0, 1, 0, 0)
    runtime = runtime_without_spark(given, lambda *_, **__: None)
    pins, known, turn = PinnedQueries(runtime), [], 0
    while not stop.wait(lots.random() * 2 * spec.every_s):
        turn += 1
        if not spec.keeps:
            forget_everything(runtime.storage(spec.root))
            runtime.log_memory.__init__()  # type: ignore[misc]
            pins = PinnedQueries(runtime)
        as_of = lots.choice(known) if known and turn % TRAVELS == 0 else None
        try:
            event = look(runtime, pins, spec, as_of)
            known = event["commits"]
        except FileNotFoundError as error:
            lost = still_planned(runtime, spec.root, str(error))
            event = {"event": "lost" if lost else "gone", "as_of": as_of, "text": str(error)}
        except HudiError as error:
            kind = "expired" if isinstance(error, HistoryExpired) else "refused"
            text = f"{type(error).__name__}: {error}"
            event = {"event": kind, "as_of": as_of, "text": text}
        except Exception:
            event = {"event": "broken", "as_of": as_of, "text": traceback.format_exc()}
        answers.write(json.dumps(event) + "\n")
        answers.flush()


if __name__ == "__main__":
    run(ReaderSpec(**json.loads(sys.argv[1])), claim_stdout())
