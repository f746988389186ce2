"""The storm: many writer processes on one table, some of them killed, some paused too long.

``python -m integration.storm [PLACE ...]`` raises one for each lock and writes ``docs/storm.md``.
Nothing is simulated: real processes get SIGKILL and SIGSTOP at random moments, half of them while
they hold the table lock. Meanwhile a reader looks at the table, and at the end the table must be
what its acknowledged commits make of it (``storm_check``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from integration.peers import HudiRs, SparkPeer, apache_hudi
from integration.peers.tables import S3Place
from integration.storm_check import (
    Name,
    Row,
    Seen,
    Told,
    compactions_of,
    differences,
    expected,
    look,
    orphans,
    outcome_problems,
    rollbacks,
    rows_of,
)
from integration.storm_compactor import Heard, compactors, run_left_plans
from integration.storm_page import parts_of
from integration.storm_places import LAPSE_S, OPTIONS, PLACES, Place, place
from integration.storm_victims import (
    LOGS,
    MERGED,
    NEW_KEYS,
    NON_BLOCKING,
    PESSIMISTIC,
    SPARK,
    Scale,
    Writer,
    strikes,
)
from integration.storm_writer import SEEDER, Spec, runtime_without_spark, shorten_leases
from pyhudi.errors import HudiError
from pyhudi.reads.scan import Query, open_query
from pyhudi.services.failed_writes import clean_failed_writes
from pyhudi.timeline.table import open_table
from tests.servers.process import BRIEF_SPARK

MODE = "hoodie.write.concurrency.mode"
KEY_CHECK = "hoodie.write.concurrency.key.conflict.check.enable"
#: a commit that is archived, or a file that is cleaned, would be missed by the model
KEPT = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
MERGE_ON_READ = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline.max.delta.commits": "4",
}
#: writers merge logs alone after their commits; compactions are those of the process beside them
MERGES_LOGS = {
    "hoodie.log.compaction.inline": "true",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.compact.inline": "false",
}
#: Every bucket is of all writers, and the rows say which of them stays: that of the highest writer,
#: and of its own the last. hudi-rs knows one ordering field at most.
NON_BLOCKING_OPTIONS = {
    MODE: "non_blocking_concurrency_control",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.table.ordering.fields": "writer",
    "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
}
ENDS_WITHIN_S = 1_800.0
LOOK_EVERY_S = 2.0
#: twice the seconds between two upserts of a writer that is to leave time for log compactions
PACE_S = 4.0
PAGE = Path(__file__).parents[1] / "docs" / "storm.md"


@dataclass(slots=True)
class Report:
    """What a storm did and what was wrong afterwards."""

    place: Place
    scale: Scale
    seed: str
    told: Told
    struck: Counter[str]
    seconds: float
    figures: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    compactors: Heard = field(default_factory=Heard)

    def wanted(self, commits: Iterable[tuple[str, Name]]) -> tuple[Row, ...]:
        """The rows that these commits make."""
        return expected(self.told, commits, by_event=self.scale.non_blocking)


def options_of(place: Place, scale: Scale) -> dict[str, str]:
    """The options of the storm's writers."""
    new_keys = (scale.spark or scale.new_keys) and not scale.non_blocking
    options = {**OPTIONS, **KEPT, KEY_CHECK: str(new_keys).lower(), **place.options}
    options["hoodie.write.table.version"] = str(scale.version)
    if scale.pessimistic:
        options[MODE] = "pessimistic_concurrency_control"
    if scale.merge_on_read:
        options |= MERGE_ON_READ
    if scale.merges_logs:
        options |= MERGES_LOGS
    if scale.non_blocking:
        options |= NON_BLOCKING_OPTIONS
    return options


class Eye:
    """A session without Spark that queries the table of a place."""

    def __init__(self, place: Place) -> None:
        self._root = place.root
        spec = Spec(place.root, {}, place.hadoop, 0.0, "", 0, 1, 0, 0)
        self._runtime = runtime_without_spark(spec, lambda *_, **__: None)

    def query(self) -> Query:
        """The table's newest state."""
        return open_query(self._runtime, self._root, {}, {})


class Reader:
    """Looks at the table again and again, until told to stop."""

    def __init__(self, place: Place) -> None:
        self.seen: list[Seen] = []
        self.problems: list[str] = []
        self._eye = Eye(place)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader")

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            try:
                self.seen.append(look(self._eye.query()))
            except (HudiError, OSError) as error:
                self.problems.append(f"a reader failed during the storm: {error!r}")


def rage(place: Place, scale: Scale, seed: str, folder: Path) -> Report:
    """One storm, and what pyhudi itself says of the table after it; ``verify`` asks the peers."""
    new_keys = scale.spark or scale.new_keys
    options = options_of(place, scale)
    spec = Spec(
        place.root, options, place.hadoop, place.lease_s, seed,
        SEEDER, scale.writers, 0, scale.upserts, spark=scale.non_blocking,
    )  # fmt: skip
    told = Told()
    with Writer(spec, folder, told, []) as seeder:
        seeder.go()
        if not seeder.join(time.monotonic() + ENDS_WITHIN_S) or seeder.dead:
            raise RuntimeError(f"the table could not be made: see {folder}")
    told.counts.clear()
    plan = strikes(scale, seed, place.lease_s)
    alike = replace(
        spec, spark=scale.spark, new_keys=new_keys, pace_s=PACE_S if scale.merges_logs else 0.0
    )
    writers = [
        Writer(replace(alike, writer=number), folder, told, [s for s in plan if s.writer == number])
        for number in range(scale.writers)
    ]
    with ExitStack() as stack, Reader(place) as reader:
        beside = Heard()
        if scale.merge_on_read:
            beside = stack.enter_context(compactors(spec, scale, folder))
        for writer in writers:
            stack.enter_context(writer)
        started = time.monotonic()
        for writer in writers:
            writer.go()
        late = [not writer.join(started + ENDS_WITHIN_S) for writer in writers]
        seconds = time.monotonic() - started
    struck = sum((writer.struck for writer in writers), Counter[str]())
    report = Report(place, scale, seed, told, struck, seconds, problems=reader.problems)
    report.problems += [f"{n} writers had not ended in time"] if (n := sum(late)) else []
    report.problems += [f"writer {w} crashed" for w, one in enumerate(writers) if one.dead]
    report.problems += beside.problems
    report.compactors = beside
    for seen in reader.seen:
        moment = f"a reader, after {len(seen.commits)} commits"
        report.problems += differences(moment, seen.rows, report.wanted(seen.commits))
    report.figures["snapshots"] = len(reader.seen)
    _settle(report, options)
    return report


def _settle(report: Report, options: dict[str, str]) -> None:
    """Clean failed writes once, as ``pyhudi clean`` does, and compare the table with the model."""
    place, told, figures = report.place, report.told, report.figures
    shorten_leases(place.lease_s)
    storage = place.open()
    table = open_table(storage)
    figures["rolled back in the storm"] = rollbacks(table.timeline())
    figures["orphans before settling"] = len(orphans(storage))
    time.sleep(LAPSE_S + 0.5)
    clean_failed_writes(place.root, options=options, hadoop_options=place.hadoop)
    if report.scale.merge_on_read:
        run_left_plans(place, options, report.scale)
    figures["rolled back after it"] = (
        rollbacks(table.timeline()) - figures["rolled back in the storm"]
    )
    report.problems += [f"left after settling: {path}" for path in orphans(storage)]
    report.problems += place.lock_problems(options)
    final = look(Eye(place).query())
    report.problems += outcome_problems(told, final)
    report.problems += differences("the table", final.rows, report.wanted(final.commits))
    figures.update(compactions_of(table))
    names = {name for _, name in final.commits}
    figures["commits"] = sum(writer != SEEDER for writer, _ in names)
    figures["acknowledged"] = sum(writer != SEEDER for writer, _ in told.acknowledged)
    figures["landed unacknowledged"] = len(names - set(told.acknowledged))
    figures["silent"] = len(told.silent)
    figures["rows"] = len(final.rows)


def verify(report: Report, hudi_rs: HudiRs | None, hudi: SparkPeer | None) -> None:
    """Have the peers read the table; what differs from the model becomes a problem."""
    place = report.place
    path = S3Place(place.root, place.s3) if place.s3 else Path(place.root)
    final = look(Eye(place).query())
    peers: list[HudiRs | SparkPeer | None] = [hudi_rs, hudi]
    for peer in (one for one in peers if one is not None):
        seen = rows_of(peer.read(path))
        report.problems += differences(peer.name, seen, report.wanted(final.commits))


COLUMNS = (
    "lock", "storage", "writers x upserts", "acknowledged", "conflicts", "given up", "killed",
    "paused", "fenced", "other failures", "unknown", "silent, landed", "rolled back",
    "compactions", "log compactions", "snapshots read", "seconds", "commits/s", "problems",
)  # fmt: skip
NAMED = 3  # columns that tell which storm it was

INTRODUCTION = f"""\
# The storm

`make storm` writes this page. Many writer processes upsert into one table of three partitions, half
of the upserts into file groups that all of them share. Some get SIGKILL and are started again, some
are stopped by SIGSTOP for longer than their heartbeat's {LAPSE_S:g} s; of both kinds the number in
brackets held the table lock then, and was stopped for longer than the lock's lease. Writers are the
product without Spark (see `integration/storm_writer.py`); those of the rows marked with Spark are
Spark applications. These, and those marked with new keys, also race for keys that the table does
not have, under the check of keys. Pessimistic ones lock their file groups before they merge.

A merge-on-read table is compacted by a process beside the writers, and by the writers after each
fourth commit; that process is killed and stopped, too, also amid a run and while it holds the lock.
Where a row says log compactions, a second such process merges logs with each other, as writers do
after each second commit. A log compaction waits for each write that began before it, so these
writers rest two seconds between two upserts. *compactions* and *log compactions* are those that
completed.

Writers without coordination add logs to buckets that all share, and none of them loses a race: of
a key the row with the highest ordering value stays.

At the end the table must be what its commits make of it, in the order of their completion, with the
rows that each writer announced before it began: every acknowledged commit is there, once; no failed
one is; no key is double; pyhudi, hudi-rs and Apache Hudi 1.2.0 read those rows. So must each
snapshot that a reader took during the storm. Then `pyhudi clean --failed-writes` runs once, and
compactions whose runs died are run again. No base file or log without a commit, marker, heartbeat,
open instant or lock may be left then. What differs is a problem.

* *conflicts* are lost races; all but those *given up* after ten retries were healed by a retry.
* *fenced* writers found out by themselves that they had been taken for dead.
* *silent, landed*: upserts whose writer was killed before it said how they ended, and how many of
  these had been committed all the same.
* *rolled back*: writes undone during the storm, by their own writers after a lost race or by others
  who found them dead, and by the last cleaning.
"""


def summary(report: Report) -> Sequence[object]:
    """A line of the published table, in the order of ``COLUMNS``."""
    told, figures, struck, scale = report.told, report.figures, report.struck, report.scale
    counts, holding = told.counts, " with the lock"
    others = Counter(told.failed.values())
    del others["CommitConflict"], others["WriterFenced"]

    def befell(what: str) -> str:
        with_lock = struck[what + holding]
        return f"{struck[what] + with_lock} ({with_lock})"

    return (
        report.place.lock,
        report.place.storage,
        str(scale),
        figures["acknowledged"],
        counts["retry"] + counts["CommitConflict"],
        counts["CommitConflict"],
        befell("killed"),
        befell("paused"),
        counts["WriterFenced"],
        ", ".join(f"{n} {kind}" for kind, n in sorted(others.items())) or 0,
        len(told.unknown),
        f"{figures['silent']}, {figures['landed unacknowledged']}",
        f"{figures['rolled back in the storm']} + {figures['rolled back after it']}",
        figures["COMPACT"],
        figures["LOG_COMPACT"],
        figures["snapshots"],
        f"{report.seconds:.0f}",
        f"{figures['commits'] / report.seconds:.2g}",
        len(report.problems) or "none",
    )


def page(reports: Sequence[Report], published: str = "") -> str:
    """``docs/storm.md``: a line for each report, and those of the ``published`` page for the rest.

    A line with problems has them below the table. The part of the services stays as it is.
    """
    lines = {line[:NAMED]: line for line in _lines(published.removesuffix(parts_of(published)))}
    lines |= {line[:NAMED]: line for line in (tuple(map(str, summary(r))) for r in reports)}
    table = [COLUMNS, ("---",) * len(COLUMNS), *lines.values()]
    text = "\n".join("| " + " | ".join(line) + " |" for line in table)
    found = "\n".join(
        f"* {r.place.lock}, {r.place.storage}: {problem}" for r in reports for problem in r.problems
    )
    problems = f"\n## Problems\n\n{found}\n" if found else ""
    services = parts_of(published)
    return f"{INTRODUCTION}\n{text}\n{problems}" + (f"\n{services}" if services else "")


def _lines(published: str) -> list[tuple[str, ...]]:
    """The table of a page, without its head."""
    rows = [line for line in published.splitlines() if line.startswith("| ")]
    return [tuple(line.strip("| ").split(" | ")) for line in rows[2:]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A storm to be raised."""

    place: str
    scale: Scale = field(default_factory=Scale)


WHOLE = (
    *map(Plan, PLACES),
    *(Plan(name, PESSIMISTIC) for name in ("filesystem", "zookeeper")),
    Plan("filesystem", NEW_KEYS),
    *(Plan("filesystem", replace(LOGS, version=version)) for version in (9, 8, 6)),
    *(Plan(name, LOGS) for name in ("zookeeper", "storage")),
    Plan("zookeeper", replace(LOGS, version=6)),
    Plan("numbered", MERGED),
    Plan("filesystem", replace(MERGED, version=8)),
    Plan("filesystem", NON_BLOCKING),
    *(Plan(name, SPARK) for name in ("filesystem", "storage")),
)


class Peers:
    """Apache Hudi for each storage: that for local disk is started once (a ``with`` block)."""

    def __init__(self) -> None:
        self._local: SparkPeer | None = None

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._local is not None:
            self._local.close()

    def verify(self, report: Report) -> None:
        """``verify`` with hudi-rs and Apache Hudi 1.2.0."""
        s3 = report.place.s3
        if s3 is None:
            self._local = self._local or apache_hudi("1.2.0")
            verify(report, HudiRs(), self._local)
            return
        hudi = apache_hudi("1.2.0", s3)
        try:
            verify(report, HudiRs(s3), hudi)
        finally:
            hudi.close()


def storm(plan: Plan, seed: str, peers: Peers) -> Report:
    """Raise one storm and have everybody read; its folder stays where something was wrong."""
    folder = Path(tempfile.mkdtemp(prefix=f"storm-{plan.place}-"))
    with place(plan.place, folder) as where:
        report = rage(where, plan.scale, seed, folder)
        peers.verify(report)
        if report.problems:
            print(f"the table and the logs of the writers are in {folder}", file=sys.stderr)
    if not report.problems:
        shutil.rmtree(folder)
    return report


def main() -> int:
    """Raise all storms, or those that are named, and publish them; 1 where one found a problem."""
    parser = argparse.ArgumentParser("python -m integration.storm", description=__doc__)
    parser.add_argument("place", nargs="*", help=f"all, or some of {', '.join(PLACES)}")
    parser.add_argument("--seed", default="1")
    kinds = {
        "spark": SPARK, "pessimistic": PESSIMISTIC, "new-keys": NEW_KEYS, "logs": LOGS,
        "log-compactions": MERGED, "non-blocking": NON_BLOCKING,
    }  # fmt: skip
    parser.add_argument("--writers", choices=kinds, help="of this kind, not optimistic ones")
    parser.add_argument("--version", type=int, choices=(6, 8, 9), default=9, help="of the table")
    parser.add_argument("--upserts", type=int, help="of each writer, where time is short")
    given = parser.parse_args()
    os.environ.update(BRIEF_SPARK)
    if unknown := set(given.place) - set(PLACES):
        parser.error(f"no such place: {', '.join(sorted(unknown))}")
    scale = kinds.get(given.writers, Scale())
    scale = replace(scale, upserts=given.upserts or scale.upserts, version=given.version)
    plans = [Plan(name, scale) for name in given.place] or WHOLE
    reports = []
    with Peers() as peers:
        for plan in plans:
            reports.append(storm(plan, given.seed, peers))
            print(dict(zip(COLUMNS, summary(reports[-1]), strict=True)), flush=True)
            told = reports[-1].told.texts, reports[-1].compactors.failures
            for line in (*reports[-1].problems, *told[0], *told[1]):
                print(f"  {line}", flush=True)
            published = PAGE.read_text() if PAGE.exists() else ""
            kept = parts_of(published) if plans is WHOLE else published
            PAGE.write_text(page(reports, kept))
    return 1 if any(report.problems for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
