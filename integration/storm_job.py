"""One service of a storm: a process that cleans, archives, clusters or compacts again and again.

``python -m integration.storm_job SPEC-JSON`` calls pyhudi's own function for the service, as a job
beside the writers would, and tells of each turn in JSON lines on stdout. It begins when it gets a
line on stdin, rests while the file ``on`` is not there, and ends when the file ``until`` is. What
``on`` says is the rest between two turns in seconds.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TextIO

import pyhudi
from integration.killed_writer import module
from integration.peers.process import claim_stdout
from integration.storm_writer import Tell, Told, shorten_leases
from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import HudiError
from pyhudi.lock_options import LockOptions
from pyhudi.locks.base import TableLock
from pyhudi.locks.open import LockOpener
from pyhudi.services.archiver import ArchiveFate
from pyhudi.services.clean import Fate
from pyhudi.services.clustering import ClusteringFate
from pyhudi.services.compaction import CompactionFate
from pyhudi.storage.base import Storage

SERVICES = ("clean", "archive", "cluster")
#: those of a merge-on-read table
LOG_SERVICES = (*SERVICES, "compact", "merge logs")
LOG_STEPS = {"compact": "scheduleAndRun", "merge logs": "scheduleAndLogCompact"}
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What one service does; ``every_s`` is its rest between two turns if ``on`` says none."""

    root: str
    options: dict[str, str]
    hadoop: dict[str, str]
    lease_s: float
    spared_ms: int
    service: str
    every_s: float
    on: str
    until: str
    first: int = 0


@dataclass(slots=True)
class Locks:
    """A ``LockOpener`` whose locks tell when they are taken."""

    inner: LockOpener
    tell: Tell = field(repr=False)

    def open(self, said: LockOptions, table_name: str, storage: Storage) -> TableLock:
        return Told(self.inner.open(said, table_name, storage), self.tell)


def hurry(lease_s: float, spared_ms: int) -> None:
    """Shorten what a storm of a minute cannot wait for."""
    shorten_leases(lease_s)
    module("pyhudi.services.clean").SPARED_MS = spared_ms


def turn(service: str, root: str, options: Mapping[str, str], hadoop: Mapping[str, str]) -> int:
    """Give a service its turn: how many files or instants it has dealt with."""
    said: dict[str, Any] = {"options": options, "hadoop_options": hadoop}
    if service == "clean":
        return sum(each.fate is Fate.DELETED for each in pyhudi.clean(root, **said))
    if service == "archive":
        return sum(each.fate is ArchiveFate.ARCHIVED for each in pyhudi.archive(root, **said))
    if service in LOG_STEPS:
        found = pyhudi.compact(root, op=LOG_STEPS[service], **said)
        return sum(each.fate is CompactionFate.COMPACTED for each in found)
    return sum(each.fate is ClusteringFate.CLUSTERED for each in pyhudi.cluster(root, **said))


def run(spec: JobSpec, answers: TextIO) -> None:
    """Take turns, once a line on stdin says so, until all is done or this process is killed."""
    number, clock = spec.first, SystemClock()

    def tell(event: str, **more: Any) -> None:
        answers.write(json.dumps({"event": event, "number": number, **more}) + "\n")
        answers.flush()

    def opener(clock: Clock, storage: Callable[[str], Storage]) -> Locks:
        return Locks(LockOpener(clock, storage), tell)

    hurry(spec.lease_s, spec.spared_ms)
    module("pyhudi.services.opened").LockOpener = opener
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    for noisy in ("kazoo", "botocore", "boto3", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    on, until = Path(spec.on), Path(spec.until)
    tell("ready")
    sys.stdin.readline()
    for number in count(spec.first):  # noqa: B007
        while not on.exists() and not until.exists():
            clock.sleep(LOOK_EVERY_S)
        if until.exists():
            break
        tell("begin")
        began = clock.monotonic()
        try:
            done = turn(spec.service, spec.root, spec.options, spec.hadoop)
            tell("turn", done=done, seconds=round(clock.monotonic() - began, 3))
        except HudiError as error:
            tell("failed", kind=type(error).__name__, text=str(error))
        except Exception:
            tell("broken", text=traceback.format_exc())
        ends = clock.monotonic() + _rest(on, spec.every_s)
        while on.exists() and not until.exists() and clock.monotonic() < ends:
            clock.sleep(LOOK_EVERY_S)
    tell("end")


def _rest(on: Path, usual: float) -> float:
    try:
        return float(on.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return usual


if __name__ == "__main__":
    run(JobSpec(**json.loads(sys.argv[1])), claim_stdout())
