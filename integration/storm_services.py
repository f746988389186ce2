"""A storm with Apache Hudi's services: eight writers, three readers and Hudi on one table.

``python -m integration.storm_services`` raises one for each type of table and each version, and
writes its line into ``docs/storm.md``. One session of Apache Hudi 1.2.0 cleans, archives, clusters,
makes and deletes savepoints, restores and rolls back, on merge-on-read tables also compacts and
merges logs, in an order by the seed, under the lock that the writers share. Some writers are
killed, some stopped, and the store takes very long for a put now and then. What must be true is in
``storm_chronicle``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from integration.peers import HudiRs
from integration.peers.spark import child_environment
from integration.storm import MERGE_ON_READ, Eye
from integration.storm_check import Row, Told, rows_of, seen_rows
from integration.storm_chronicle import (
    Chronicle,
    Chronicler,
    Entry,
    Listing,
    listing_of,
    outcome_problems,
    row_problems,
)
from integration.storm_compactor import run_left_plans
from integration.storm_hudi import LOG_SERVICES, SERVICES, Services, session_settings
from integration.storm_page import with_services
from integration.storm_places import LOCK, OPTIONS, PROVIDER, Place
from integration.storm_reader import ReaderSpec
from integration.storm_victims import Writer, strikes
from integration.storm_weather import DOUBLED, SAMPLE, SMALL, Report, Weather
from integration.storm_writer import SEEDER, Spec
from integration.strays import is_data
from pyhudi.format.filenames import parse_log_file_name
from pyhudi.services.failed_writes import clean_failed_writes
from pyhudi.storage.base import Storage
from pyhudi.timeline.table import open_table
from tests.servers.process import BRIEF_SPARK
from tests.servers.zookeeper import zookeeper_server

VERSIONS = (6, 8, 9)
READERS = 3
BEAT_MS, MISSES = 2_000, 2
LAPSE_S = BEAT_MS * (MISSES + 1) / 1_000
ENDS_WITHIN_S = 2_400.0
PAGE = Path(__file__).parents[1] / "docs" / "storm.md"


TYPES = ("cow", "mor")
#: Apache Hudi compacts
LOGS = {**MERGE_ON_READ, "hoodie.compact.inline": "false"}


class Reader:
    """One reader's process; ``events`` are what it told (a ``with`` block)."""

    def __init__(self, spec: ReaderSpec, folder: Path) -> None:
        self.events: list[dict[str, Any]] = []
        self.reader = spec.reader
        fields = {name: getattr(spec, name) for name in ReaderSpec.__dataclass_fields__}
        with (folder / f"reader{spec.reader}.log").open("ab") as noise:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "integration.storm_reader", json.dumps(fields)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=noise, text=True,
                env=child_environment(sys.executable),
            )  # fmt: skip
        self._kept = folder / f"reader{spec.reader}.events"
        self._thread = threading.Thread(target=self._listen, name=f"reader {spec.reader}")
        self._thread.start()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._thread.join(60)
        self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._kept.open("a") as kept:
            for line in self._process.stdout:
                event = json.loads(line)
                event["at"] = time.time()
                self.events.append(event)
                kept.write(json.dumps(event) + "\n")


def options_of(weather: Weather, version: int, address: str) -> dict[str, str]:
    """What every writer is given."""
    return {
        **OPTIONS,
        **(LOGS if weather.scale.merge_on_read else {}),
        "hoodie.write.concurrency.key.conflict.check.enable": str(weather.scale.new_keys).lower(),
        "hoodie.write.table.version": str(version),
        "hoodie.client.heartbeat.interval_in_ms": str(BEAT_MS),
        "hoodie.client.heartbeat.tolerable.misses": str(MISSES),
        PROVIDER: "zookeeper",
        LOCK + "wait_time_ms": "300000",
        LOCK + "zookeeper.url": address,
        LOCK + "zookeeper.base_path": "/storms",
        LOCK + "zookeeper.lock_key": "storm",
        LOCK + "zookeeper.session_timeout_ms": str(int(weather.lease_s * 1_000)),
    }


def rage(version: int, weather: Weather, seed: str, folder: Path) -> Report:
    """One storm and what was wrong with it."""
    told, scale = Told(), weather.scale
    report = Report(version, weather, seed, told)
    with ExitStack() as stack:
        server = stack.enter_context(zookeeper_server(folder))
        options = options_of(weather, version, server.address)
        place = Place(str(folder / "storm"), "ZooKeeper", "local disk", options, weather.lease_s)
        spec = Spec(
            place.root, options, {}, place.lease_s, seed, SEEDER, scale.writers, 0, scale.upserts
        )
        with Writer(spec, folder, told, []) as seeder:
            seeder.go()
            if not seeder.join(time.monotonic() + ENDS_WITHIN_S) or seeder.dead:
                raise RuntimeError(f"the table could not be made: see {folder}")
        told.counts.clear()
        settings = session_settings(options, version, BEAT_MS, MISSES)
        services = Services(
            settings,
            place.open(),
            folder,
            seed,
            weather.only or (*SERVICES, *LOG_SERVICES * scale.merge_on_read),
            weather.service_pause_s,
            weather.rounds,
        )
        stack.callback(services.close)
        chronicle = _blow(report, spec, place, services, folder)
        report.services = services.counts
        report.failures = [f"{s.service} {s.instant}: {s.failed}" for s in services.ran if s.failed]
        stuck = {s.instant for s in services.ran if s.failed and s.service == "undo clustering"}
        _settle(report, place, options, chronicle, stuck)
        _ask_peers(report, place, services, chronicle)
    return report


def _blow(report: Report, spec: Spec, place: Place, services: Services, folder: Path) -> Chronicle:
    """Writers, readers and services beside each other, until the writers have ended."""
    weather, told, seed = report.weather, report.told, report.seed
    plan = strikes(weather.scale, seed, place.lease_s, LAPSE_S)
    specs = [
        replace(
            spec, writer=number, new_keys=weather.scale.new_keys, pace_s=weather.pace_s,
            put_s=weather.put_s, late=weather.late, until=str(services.enough),
        )
        for number in range(weather.scale.writers)
    ]  # fmt: skip
    writers = [
        Writer(one, folder, told, [s for s in plan if s.writer == one.writer]) for one in specs
    ]
    readers = [
        Reader(ReaderSpec(place.root, {}, seed, number, keeps=number == 0), folder)
        for number in range(READERS)
    ]
    with ExitStack() as stack:
        chronicle = stack.enter_context(Chronicler(place.open))
        for one in (*readers, services, *writers):
            stack.enter_context(one)
        started = time.monotonic()
        for writer in writers:
            writer.go()
        late = [not writer.join(started + ENDS_WITHIN_S) for writer in writers]
        report.seconds = time.monotonic() - started
    report.struck = sum((writer.struck for writer in writers), Counter[str]())
    report.problems += [f"{n} writers had not ended in time"] if (n := sum(late)) else []
    report.problems += [f"writer {w} crashed" for w, one in enumerate(writers) if one.dead]
    report.problems += [f"Apache Hudi ended: {services.died}"] if services.died else []
    for reader in readers:
        _judge_reader(report, reader, chronicle)
    return chronicle


def _judge_reader(report: Report, reader: Reader, chronicle: Chronicle) -> None:
    for event in reader.events:
        kind = event["event"] + (" in time travel" if event["as_of"] else "")
        report.reads[kind] += 1
        who = f"reader {reader.reader} at {event['at']:.3f}"
        if event["event"] in ("broken", "lost"):
            report.problems.append(f"{who}, as of {event['as_of']}: {event['text']}")
        if event["event"] == "refused":
            report.reads[event["text"].split(":")[0]] += 1
            report.told.texts.append(f"{who}, as of {event['as_of']}: {event['text']}")
        if event["event"] != "look":
            continue
        shown = chronicle.seen_by(listing_of(event), event["as_of"])
        what = f"{who}, as of {event['as_of']}, after {len(shown)} commits"
        rows: list[Row] = [tuple(row) for row in event["rows"]]
        problems, borne = row_problems(what, report.told, chronicle, shown, rows)
        _tell(report, chronicle, problems, event["at"], shown)
        report.figures["rows of undone commits, built on before"] += borne


def _tell(
    report: Report, chronicle: Chronicle, problems: list[str], at: float, shown: list[Entry]
) -> None:
    """Wrong rows are problems, but those that Apache Hudi has made are its own.

    A restore may have overlooked commits, or a commit be built on a clustering that is undone.
    """
    since_ms = min(chronicle.overlooked().values(), default=None)
    found = chronicle.doubled(shown)
    if since_ms is not None and at * 1_000 >= since_ms:
        found += chronicle.overlooked()
    if problems and found:
        report.figures[DOUBLED] += 1
        if report.figures[DOUBLED] == 1:
            report.told.texts.append(f"double by {sorted(found)}: {problems[0]}")
    else:
        report.problems += problems


def final_look(storage: Storage) -> tuple[Listing, list[str]]:
    """The listing at the end, and what is open still."""
    timeline = open_table(storage).timeline()
    commits = frozenset(str(i.time) for i in timeline.commits)
    pending = frozenset(str(i.time) for i in timeline.pending)
    saved = frozenset(str(i.time) for i in timeline.completed if i.action.value == "savepoint")
    left = [f"{i.time}.{i.action.value}.{i.state.value}" for i in timeline.pending]
    return Listing(commits, pending, saved), left


def _settle(
    report: Report,
    place: Place,
    options: dict[str, str],
    chronicle: Chronicle,
    stuck: Collection[str],
) -> None:
    """Clean failed writes once, as ``pyhudi clean`` does, and look at the outcomes.

    ``stuck`` are plans that Apache Hudi could not take back: its restore undoes commits whose
    files a clustering plan names, and leaves the plan.
    """
    storage = place.open()
    time.sleep(LAPSE_S + 0.5)
    clean_failed_writes(place.root, options=options)
    if report.weather.scale.merge_on_read:
        scale = replace(report.weather.scale, merges_logs=report.version > 6)
        run_left_plans(place, options, scale)
    chronicle.look(storage)
    listing, left = final_look(storage)
    theirs = {name for name in left if name.split(".")[0] in stuck}
    report.problems += [f"left after settling: {name}" for name in left if name not in theirs]
    report.problems += orphans(storage, chronicle)
    report.problems += outcome_problems(report.told, chronicle, listing)
    told, figures = report.told, report.figures
    figures["acknowledged"] = sum(writer != SEEDER for writer, _ in told.acknowledged)
    figures["undone"] = len(
        {n for n, time in told.acknowledged.items() if time in chronicle.undone}
    )
    figures["silent"] = len(told.silent)
    figures["plans that Apache Hudi left"] = len(theirs)
    shown = {entry.time for entry in chronicle.seen_by(listing, None)}
    figures["archived"] = len(shown - listing.commits)
    figures.update(e.operation for e in chronicle.entries.values() if e.name is None)


def orphans(storage: Storage, chronicle: Chronicle) -> list[str]:
    """Data files of instants that are no commit or were undone.

    In layout 1 a log has its slice's instant, and a rollback takes its blocks back.
    """
    commits = {e.time for e in chronicle.entries.values() if not chronicle.stays_undone(e)}
    groups = {group for entry in chronicle.entries.values() for group in entry.groups}
    by_slice = open_table(storage).timeline().layout == 1
    found = []
    for path in (file.path for file in storage.walk("") if is_data(file.path)):
        folder, _, name = path.rpartition("/")
        log = parse_log_file_name(name)
        time = log.instant if log else name.rpartition("_")[2].removesuffix(".parquet")
        known = (folder, log.file_id) in groups if log and by_slice else time in commits
        found += [] if known else [f"left after settling: {path}"]
    return found


def _ask_peers(report: Report, place: Place, services: Services, chronicle: Chronicle) -> None:
    """What pyhudi, hudi-rs and Apache Hudi read at the end."""
    listing, _ = final_look(place.open())
    shown = chronicle.seen_by(listing, None)
    path = Path(place.root)
    readers = {
        "pyhudi": lambda: list(seen_rows(Eye(place).query())),
        "hudi-rs": lambda: rows_of(HudiRs().read(path)),
        "Apache Hudi": lambda: rows_of(
            services.peer.read(path, {"hoodie.metadata.enable": "false"})
        ),
    }
    for name, read in readers.items():
        problems, _ = row_problems(name, report.told, chronicle, shown, read())
        _tell(report, chronicle, problems, time.time(), shown)


def storm(version: int, weather: Weather, seed: str, kind: str = "cow") -> Report:
    """Raise one storm on this type of table; its folder stays where something was wrong."""
    scale = replace(weather.scale, merge_on_read=kind == "mor", version=version)
    weather = replace(weather, scale=scale)
    folder = Path(tempfile.mkdtemp(prefix=f"storm-services-{kind}-{version}-"))
    report = rage(version, weather, seed, folder)
    if report.problems:
        print(f"the table and all logs are in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return report


def main() -> int:
    """Raise the storms that are asked for; 1 where one found a problem."""
    parser = argparse.ArgumentParser("python -m integration.storm_services", description=__doc__)
    parser.add_argument("--type", action="append", choices=TYPES, help="of the table")
    parser.add_argument("--version", type=int, action="append", choices=VERSIONS)
    parser.add_argument("--seed", action="append")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--sample", action="store_true")
    services = (*SERVICES, *LOG_SERVICES)
    parser.add_argument("--only", action="append", choices=services, default=[])
    parser.add_argument("--upserts", type=int)
    parser.add_argument("--quick-store", action="store_true", help="no put is late")
    parser.add_argument("--publish", action="store_true", help="as without any argument")
    given = parser.parse_args()
    os.environ.update(BRIEF_SPARK)
    weather = SMALL if given.small else SAMPLE if given.sample else Weather()
    weather = replace(weather, only=tuple(given.only))
    if given.quick_store:
        weather = replace(weather, late=0)
    if given.upserts:
        weather = replace(weather, scale=replace(weather.scale, upserts=given.upserts))
    bad = False
    kinds, versions, seeds = given.type or TYPES, given.version or VERSIONS, given.seed or ["1"]
    for kind, version, seed in product(kinds, versions, seeds):
        report = storm(version, weather, seed, kind)
        _print(report)
        bad |= bool(report.problems)
        if given.publish or not sys.argv[1:]:
            PAGE.write_text(with_services(PAGE.read_text(), [report]))
    return int(bad)


def _print(report: Report) -> None:
    print(f"version {report.version}, {report.weather.scale}, seed {report.seed}, "
          f"{report.seconds:.0f} s", flush=True)  # fmt: skip
    for name in ("services", "reads", "figures", "struck"):
        print(f"  {name}: {dict(getattr(report, name))}")
    print(f"  writers: {dict(report.told.counts)}")
    for line in report.failures:
        print(f"  service failed: {line[:600]}")
    for line in report.told.texts:
        print(f"  {line[:600]}")
    for line in report.problems:
        print(f"  PROBLEM {line[:1500]}", flush=True)


__all__: Sequence[str] = ["Report", "Weather", "rage", "storm"]

if __name__ == "__main__":
    sys.exit(main())
