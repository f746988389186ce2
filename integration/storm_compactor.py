"""The compactor of a storm on a merge-on-read table: a process beside the writers.

It is killed and stopped as they are, before its plan, amid a run, and while it holds the lock. A
writer whose own compaction is due finds its plan, and runs it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyhudi
from integration.storm_job import JobSpec
from integration.storm_places import LAPSE_S, Place
from integration.storm_victims import Scale, Strike, Victim
from integration.storm_writer import Spec

EVERY_S = 2.0
#: a stopped compactor wakes up within this time
ENDS_WITHIN_S = 300.0
#: what one that was stopped while it had the lock, or for longer than its heartbeat, ends with
FENCED = ("WriterFenced", "LockTimeout", "StorageError")


@dataclass(slots=True)
class Heard:
    """What the compactor told."""

    counts: Counter[str] = field(default_factory=Counter)
    #: failures that its strikes explain
    failures: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take one line in."""
        kind = event["event"]
        self.counts[kind] += 1
        if kind == "turn":
            self.counts["slices"] += event["done"]
        elif kind == "failed":
            fenced = event["kind"] in FENCED
            text = f"a compaction failed: {event['kind']}: {event['text']}"
            (self.failures if fenced else self.problems).append(text)
        elif kind == "broken":
            self.problems.append(f"a compaction broke: {event['text']}")


def blows(scale: Scale, lease_s: float) -> list[Strike]:
    """What befalls the compactor, as often as writers are struck, at the most four times."""
    found = [
        Strike(0, 0, "locked", 0.02, None),
        Strike(0, 1, "begin", 0.1, LAPSE_S + 2),
        Strike(0, 3, "begin", 0.15, None),
        Strike(0, 4, "locked", 0.0, lease_s + 2),
    ]
    return found[: scale.kills + scale.pauses]


@contextmanager
def compactor(spec: Spec, scale: Scale, folder: Path) -> Iterator[Heard]:
    """Compact again and again while the block runs."""
    heard, on, until = Heard(), folder / "on", folder / "until"
    job = JobSpec(
        spec.root, spec.options, spec.hadoop, spec.lease_s, 0, "compact", EVERY_S, str(on),
        str(until),
    )  # fmt: skip
    on.touch()
    strikes = blows(scale, spec.lease_s)
    with Victim("integration.storm_job", "compactor", job, folder, heard.hear, strikes) as victim:
        victim.go()
        try:
            yield heard
        finally:
            until.touch()
            late = not victim.join(time.monotonic() + ENDS_WITHIN_S)
            heard.problems += ["the compactor had not ended in time"] if late else []
            heard.problems += ["the compactor crashed"] if victim.dead else []
            heard.counts.update(victim.struck)


def run_left_plans(place: Place, options: Mapping[str, str]) -> None:
    """Run the plans whose runs have died: a plan stays until it has run."""
    pyhudi.compact(place.root, op="run", options=options, hadoop_options=place.hadoop)
