"""A storm with pyhudi's own services: writers, cleans, archives, clusterings, long readers.

``python -m integration.storm_own [PLACE ...]`` raises one for each lock and writes its line into
``docs/storm.md``, with ``--logs`` on merge-on-read tables. The services are processes of their own
beside writers that have none inline. Processes of each kind are killed and stopped. When that is
over, the services run and rest in turns, and the writers' commits of both are counted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from integration.peers import HudiRs, SparkPeer, apache_hudi
from integration.peers.tables import S3Place
from integration.storm import MERGE_ON_READ, Eye
from integration.storm_check import Row, Told, rows_of, seen_rows
from integration.storm_chronicle import (
    Chronicle,
    Chronicler,
    listing_of,
    outcome_problems,
    row_problems,
)
from integration.storm_holder import HolderSpec
from integration.storm_job import JobSpec, hurry
from integration.storm_own_page import Report, Season, Span, with_ours
from integration.storm_places import LAPSE_S, OPTIONS, PLACES, Place, place
from integration.storm_services import final_look
from integration.storm_victims import Strike, Victim, Writer, strikes
from integration.storm_writer import SEEDER, Spec
from integration.strays import is_data
from pyhudi.services.failed_writes import clean_failed_writes
from pyhudi.services.rounds import USUAL, Service, run_services
from pyhudi.storage.base import Storage
from pyhudi.transactions.leases import FOLDER as LEASES
from tests.servers.process import BRIEF_SPARK

READERS = 3
ENDS_WITHIN_S = 1_200.0
LOOK_EVERY_S = 0.1
PAGE = Path(__file__).parents[1] / "docs" / "storm.md"
#: the locks of the published storms
LOCKS = ("filesystem", "numbered", "zookeeper", "hive", "dynamodb", "storage")

CLUSTERING = "hoodie.clustering.plan.strategy."
#: so little is kept that each service has work in a storm of a minute
RETENTION = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "8",
    "hoodie.keep.max.commits": "12",
    "hoodie.write.concurrency.key.conflict.check.enable": "true",
    CLUSTERING + "class": "ALL",
    CLUSTERING + "sort.columns": "key",
}

#: services of their own merge the logs, and soon
LOGS = {
    **MERGE_ON_READ,
    "hoodie.compact.inline": "false",
    "hoodie.log.compaction.blocks.threshold": "2",
}


@dataclass(slots=True)
class Services:
    """The processes of the services, and what they told."""

    told: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)

    def hear(self, service: str, event: Mapping[str, Any]) -> None:
        """Take one line of a service in."""
        kind = event["event"]
        (self.busy.add if kind in ("begin", "locked") else self.busy.discard)(service)
        if kind == "turn":
            self.told[service] += bool(event["done"])
            self.told[service + " done"] += event["done"]
        elif kind == "failed":
            self.told["failed"] += 1
            text = f"{service}: {event['kind']}: {event['text']}"
            # Who was stopped while it had the lock finds out that others went on, or that its
            # session with the lock's service has ended.
            fenced = event["kind"] in ("WriterFenced", "LockTimeout", "StorageError")
            (self.failures if fenced else self.problems).append(text)
        elif kind == "broken":
            self.problems.append(f"{service} broke: {event['text']}")


def blows(season: Season, lease_s: float) -> dict[str, list[Strike]]:
    """What befalls services and readers: each service is killed and stopped once, with the lock.

    Of two readers one is killed and one stopped. In a gentle storm each service is struck once.
    """
    held, lapsed = lease_s + 2, LAPSE_S + 2
    if season.gentle:
        return {
            "clean": [Strike(0, 1, "locked", 0.01, None)],
            "archive": [Strike(0, 1, "locked", 0.0, held)],
            "cluster": [Strike(0, 1, "locked", 0.1, None)],
            "compact": [Strike(0, 1, "locked", 0.02, None)],
            "merge logs": [Strike(0, 0, "locked", 0.05, None)],
        }
    return {
        "compact": [Strike(0, 1, "locked", 0.02, None), Strike(0, 3, "locked", 0.0, held)],
        "merge logs": [Strike(0, 2, "begin", 0.1, None)],
        "clean": [Strike(0, 1, "locked", 0.01, None), Strike(0, 3, "locked", 0.0, held)],
        "archive": [Strike(0, 1, "locked", 0.03, None), Strike(0, 3, "locked", 0.0, held)],
        "cluster": [Strike(0, 1, "locked", 0.1, None), Strike(0, 2, "locked", 0.05, lapsed)],
        "reader1": [Strike(0, 1, "holding", 3.0, None)],
        "reader2": [Strike(0, 1, "holding", 1.0, lapsed)],
    }


def rage(where: Place, season: Season, seed: str, folder: Path) -> Report:
    """One storm, and what pyhudi itself says of the table after it; ``verify`` asks the peers."""
    told = Told()
    report = Report(where.lock, where.storage, season, seed, told)
    size = CLUSTERING + "target.file.max.bytes", CLUSTERING + "max.bytes.per.group"
    sizes = dict(zip(size, map(str, (season.file_bytes, 3 * season.file_bytes)), strict=True))
    options = {**OPTIONS, **RETENTION, **sizes, **where.options}
    options["hoodie.write.table.version"] = str(season.scale.version)
    options |= LOGS if season.scale.merge_on_read else {}
    spec = Spec(
        where.root, options, where.hadoop, where.lease_s, seed,
        SEEDER, season.scale.writers, 0, season.scale.upserts, until=str(folder / "until"),
    )  # fmt: skip
    with Writer(spec, folder, told, []) as seeder:
        seeder.go()
        if not seeder.join(time.monotonic() + ENDS_WITHIN_S) or seeder.dead:
            raise RuntimeError(f"the table could not be made: see {folder}")
    told.counts.clear()
    chronicle = _blow(report, spec, where, folder)
    _settle(report, where, options, chronicle)
    report.chronicle = chronicle
    return report


def _blow(report: Report, spec: Spec, where: Place, folder: Path) -> Chronicle:
    """Writers, services and readers beside each other; first the strikes, then the counting."""
    season, told, services = report.season, report.told, Services()
    on, until = folder / "on", folder / "until"
    plan = strikes(season.scale, report.seed, where.lease_s)
    others = blows(season, where.lease_s)
    writers = [
        _Counted(
            replace(spec, writer=number, new_keys=number < season.racing, pace_s=season.pace_s),
            folder, told, [s for s in plan if s.writer == number],
        )
        for number in range(season.scale.writers)
    ]  # fmt: skip
    job = partial(
        JobSpec, where.root, dict(spec.options), where.hadoop, where.lease_s, season.spared_ms,
        on=str(on), until=str(until),
    )  # fmt: skip
    jobs = [
        Victim(
            "integration.storm_job", name, job(service=name, every_s=season.rests_s[name]),
            folder, partial(services.hear, name), others.get(name, []),
        )
        for name in season.services
    ]  # fmt: skip
    looks: list[tuple[str, float, Mapping[str, Any]]] = []
    readers = [
        Victim(
            "integration.storm_holder", f"reader{n}",
            HolderSpec(
                where.root, where.hadoop, report.seed, n, season.long_s, season.hold_s, str(until),
                season.leased,
            ),
            folder, partial(_note, looks, f"reader{n}"), others.get(f"reader{n}", []),
        )
        for n in range(READERS)
    ]  # fmt: skip
    everybody: list[Victim[Any]] = [*writers, *jobs, *readers]
    with ExitStack() as stack:
        stack.callback(until.touch)
        chronicle = stack.enter_context(Chronicler(where.open))
        for one in everybody:
            stack.enter_context(one)
        on.touch()
        started = time.monotonic()
        for one in everybody:
            one.go()
        ends = started + ENDS_WITHIN_S
        _wait(
            lambda: (
                all(one.spared for one in everybody)
                and _worked(season, services)
                and _outlived(looks)
            ),
            ends,
        )
        report.figures["struck at"] = round(time.monotonic() - started)
        for one in everybody:
            if not one.spared:
                report.problems.append(f"{one.name} could not be struck")
        spans = _seasons(season, on, services)
        on.touch()
        until.touch()
        late = [one.name for one in everybody if not one.join(ends + 60)]
        report.seconds = time.monotonic() - started
    report.problems += [f"{name} had not ended in time" for name in late]
    report.problems += [f"{one.name} crashed" for one in everybody if one.dead]
    report.problems += services.problems
    report.services, report.failures = services.told, services.failures
    for kind, group in (("writers", writers), ("services", jobs), ("readers", readers)):
        report.struck[kind] = sum((one.struck for one in group), Counter[str]())
    report.spans = [
        replace(span, commits=tuple(writer.commits_in(span) for writer in writers))
        for span in spans
    ]
    for reader, at, event in looks:
        _judge_look(report, chronicle, reader, at, event)
    return chronicle


class _Counted(Writer):
    """A writer whose commits have their time."""

    def __init__(self, spec: Spec, folder: Path, told: Told, strikes: list[Strike]):
        self._times: list[float] = []
        super().__init__(spec, folder, told, strikes)
        hear = self._hear

        def counting(event: Mapping[str, Any]) -> None:
            if event["event"] == "committed":
                self._times.append(time.monotonic())
            hear(event)

        self._hear = counting

    def commits_in(self, span: Span) -> int:
        """How many of its commits were told within ``span``."""
        return sum(span.begin <= at < span.end for at in self._times)


def _note(
    looks: list[tuple[str, float, Mapping[str, Any]]], who: str, event: Mapping[str, Any]
) -> None:
    if event["event"] in ("look", "lost", "refused", "broken"):
        looks.append((who, time.time(), event))


def _worked(season: Season, services: Services) -> bool:
    """Whether each service has had work and ended it.

    A log compaction waits for writers that rest, which in a hard storm may never be.
    """
    return all(
        services.told[name] for name in season.services if season.gentle or name != "merge logs"
    )


def _outlived(looks: Sequence[tuple[str, float, Mapping[str, Any]]]) -> bool:
    """Whether a reader has read files that were replaced meanwhile."""
    return any(event.get("replaced") for _, _, event in looks)


def _wait(done: Callable[[], bool], ends: float) -> bool:
    while not done():
        if time.monotonic() > ends:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def _seasons(season: Season, on: Path, services: Services) -> list[Span]:
    """Services rest and run in turns, in an order that a steady drift does not favour."""
    found = []
    for turn in range(season.spans):
        works = turn % 4 in (1, 2)
        if works:
            on.write_text(f"{season.counted_rest_s or ''}", encoding="utf-8")
        else:
            on.unlink(missing_ok=True)
            _wait(lambda: not services.busy, time.monotonic() + ENDS_WITHIN_S)
        begin = time.monotonic()
        time.sleep(season.span_s)
        found.append(Span(works, begin, time.monotonic()))
    return found


def _judge_look(
    report: Report, chronicle: Chronicle, reader: str, at: float, event: Mapping[str, Any]
) -> None:
    kind = event["event"]
    report.reads[kind] += 1
    who = f"{reader} at {at:.3f}"
    if kind in ("lost", "broken"):
        report.problems.append(f"{who} {kind}: {event['text']}")
    if kind == "refused":
        report.told.texts.append(f"{who} refused: {event['text']}")
    if kind != "look":
        return
    report.reads["with files that were replaced"] += event["replaced"] > 0
    report.reads["replaced files"] += event["replaced"]
    if not event["same"]:
        report.problems.append(f"{who} read other rows from the same files")
    shown = chronicle.seen_by(listing_of(event), None)
    rows: list[Row] = [tuple(row) for row in event["rows"]]
    what = f"{who}, after {len(shown)} commits"
    report.problems += row_problems(what, report.told, chronicle, shown, rows)[0]


def named_services(chronicle: Chronicle, text: str) -> list[str]:
    """The instants of services that a text names."""
    return sorted(time for time in chronicle.services if time in text)


def _settle(report: Report, where: Place, options: Mapping[str, str], chronicle: Chronicle) -> None:
    """Clean failed writes once, as ``pyhudi clean`` does, have the job's round, and look."""
    storage, told, figures = where.open(), report.told, report.figures
    hurry(where.lease_s, report.season.spared_ms)
    time.sleep(LAPSE_S + 0.5)
    clean_failed_writes(where.root, options=options, hadoop_options=where.hadoop)
    chronicle.look(storage)
    report.problems += [f"left after settling: {path}" for path in orphans(storage, chronicle)]
    chosen = [*USUAL, *([Service.COMPACT] if report.season.scale.merge_on_read else [])]
    turns = run_services(where.root, services=chosen, options=options, hadoop_options=where.hadoop)
    report.problems += [f"{t.service.value} failed: {t.error}" for t in turns if t.error]
    chronicle.look(storage)
    listing, left = final_look(storage)
    report.problems += [f"left after settling: {name}" for name in left]
    leases = [file.path for file in storage.list(LEASES)]
    report.problems += [f"left after settling: {path}" for path in leases]
    report.problems += where.lock_problems(options)
    report.problems += outcome_problems(told, chronicle, listing)
    for name, text in told.why_failed.items():
        if instants := named_services(chronicle, text):
            report.problems.append(f"upsert {name} was failed by {instants}: {text}")
    for name, time_ in told.acknowledged.items():
        if time_ in chronicle.undone:
            report.problems.append(f"upsert {name} was acknowledged as {time_} and undone")
    shown = chronicle.seen_by(listing, None)
    figures["acknowledged"] = sum(writer != SEEDER for writer, _ in told.acknowledged)
    figures["silent"] = len(told.silent)
    figures["archived"] = sum(entry.time not in listing.commits for entry in shown)
    figures.update(entry.operation for entry in shown if entry.name is None)
    figures["retries by services"] = sum(
        bool(named_services(chronicle, text)) for _, text in told.races
    )


def orphans(storage: Storage, chronicle: Chronicle) -> list[str]:
    """Data files that no commit ever named, and traces of writes that have ended."""
    named = {path for entry in chronicle.entries.values() for path in entry.files}
    files = [file.path for file in storage.walk("")]
    data = set(filter(is_data, files))
    traces = {p for p in files if p.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/"))}
    return sorted((data - named) | traces)


def verify(report: Report, where: Place, hudi_rs: HudiRs | None, hudi: SparkPeer | None) -> None:
    """Have everybody read the table; what differs from the model becomes a problem."""
    assert report.chronicle is not None
    path = S3Place(where.root, where.s3) if where.s3 else Path(where.root)
    shown = report.chronicle.seen_by(final_look(where.open())[0], None)
    seen = {"pyhudi": list(seen_rows(Eye(where).query()))}
    for peer in (hudi_rs, hudi):
        if peer is not None:
            seen[peer.name] = rows_of(peer.read(path))
    for name, rows in seen.items():
        problems, _ = row_problems(name, report.told, report.chronicle, shown, rows)
        report.problems += problems


def storm(name: str, season: Season, seed: str) -> Report:
    """Raise one storm and have everybody read; its folder stays where something was wrong."""
    folder = Path(tempfile.mkdtemp(prefix=f"storm-own-{name}-"))
    with place(name, folder) as where:
        report = rage(where, season, seed, folder)
        hudi = apache_hudi("1.2.0", where.s3) if where.s3 else apache_hudi("1.2.0")
        try:
            verify(report, where, HudiRs(where.s3) if where.s3 else HudiRs(), hudi)
        finally:
            hudi.close()
    if report.problems:
        print(f"the table and all logs are in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return report


def main() -> int:
    """Raise the storms that are asked for and publish them; 1 where one found a problem."""
    parser = argparse.ArgumentParser("python -m integration.storm_own", description=__doc__)
    parser.add_argument("place", nargs="*", help=f"all, or some of {', '.join(PLACES)}")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--span", type=float, help="seconds of each of the parts that are counted")
    parser.add_argument("--spans", type=int, help="how many parts are counted")
    parser.add_argument("--rest", type=float, help="seconds between two turns of a service then")
    parser.add_argument("--pace", type=float, help="twice the seconds between two upserts")
    parser.add_argument("--logs", action="store_true", help="on merge-on-read tables")
    parser.add_argument("--version", type=int, choices=(6, 8, 9), default=9, help="of the table")
    parser.add_argument("--try", action="store_true", dest="only_try", help="publish nothing")
    given = parser.parse_args()
    os.environ.update(BRIEF_SPARK)
    if unknown := set(given.place) - set(PLACES):
        parser.error(f"no such place: {', '.join(sorted(unknown))}")
    reports = []
    for name in given.place or LOCKS:
        season = Season.on(name)
        scale = replace(season.scale, merge_on_read=given.logs, version=given.version)
        season = replace(season, scale=scale)
        season = replace(season, span_s=given.span or season.span_s, counted_rest_s=given.rest)
        season = replace(season, pace_s=given.pace or season.pace_s)
        if given.spans is not None:
            season = replace(season, spans=given.spans)
        reports.append(storm(name, season, given.seed))
        _print(reports[-1])
        if not given.only_try:
            PAGE.write_text(with_ours(PAGE.read_text(), reports[-1:]))
    return int(any(report.problems for report in reports))


def _print(report: Report) -> None:
    print(f"{report.lock}, {report.season.scale}, {report.seconds:.0f} s", flush=True)
    for name in ("services", "reads", "figures", "struck"):
        print(f"  {name}: {dict(getattr(report, name))}")
    print(f"  writers: {dict(report.told.counts)}")
    for span in report.spans:
        print(f"  {'with' if span.works else 'without'}: {span.rate:.2f}/s {span.commits}")
    lines: Sequence[str] = [*report.failures, *report.told.texts]
    for line in lines:
        print(f"  {line[:600]}")
    for line in report.problems:
        print(f"  PROBLEM {line[:1500]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
