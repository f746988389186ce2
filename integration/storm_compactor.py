"""The compactors of a storm on a merge-on-read table: processes beside the writers.

They are killed and stopped as writers are, before a plan, amid a run, and while they hold the lock.
One compacts; a second merges logs with each other where the storm has that. A writer whose own
compaction is due finds their plans, and runs them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyhudi
from integration.storm_job import JobSpec
from integration.storm_places import LAPSE_S, Place
from integration.storm_victims import Scale, Strike, Victim
from integration.storm_writer import Spec

#: seconds between two turns
EVERY_S = {"compact": 2.0, "merge logs": 0.3}
#: compactions beside log compactions leave logs to them
SELDOM_S = 6.0
#: a stopped compactor wakes up within this time
ENDS_WITHIN_S = 300.0
#: what one that was stopped while it had the lock, or for longer than its heartbeat, ends with
FENCED = ("WriterFenced", "LockTimeout", "StorageError")


@dataclass(slots=True)
class Heard:
    """What the compactors told."""

    counts: Counter[str] = field(default_factory=Counter)
    #: failures that their strikes explain
    failures: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def hear(self, service: str, event: Mapping[str, Any]) -> None:
        """Take one line in."""
        kind = event["event"]
        self.counts[f"{service}: {kind}"] += 1
        if kind == "turn":
            self.counts[f"{service}: slices"] += event["done"]
        elif kind == "failed":
            fenced = event["kind"] in FENCED
            text = f"{service} failed: {event['kind']}: {event['text']}"
            (self.failures if fenced else self.problems).append(text)
        elif kind == "broken":
            self.problems.append(f"{service} broke: {event['text']}")


def blows(service: str, scale: Scale, lease_s: float) -> list[Strike]:
    """What befalls a compactor, as often as writers are struck, at the most four times.

    One that merges logs takes the lock only where it has something to do.
    """
    if service == "merge logs":
        found = [
            Strike(0, 0, "locked", 0.05, None),
            Strike(0, 0, "locked", 0.1, LAPSE_S + 2),
            Strike(0, 0, "locked", 0.02, None),
            Strike(0, 0, "locked", 0.0, lease_s + 2),
        ]
    else:
        found = [
            Strike(0, 0, "locked", 0.02, None),
            Strike(0, 1, "begin", 0.1, LAPSE_S + 2),
            Strike(0, 3, "begin", 0.15, None),
            Strike(0, 4, "locked", 0.0, lease_s + 2),
        ]
    return found[: scale.kills + scale.pauses]


@contextmanager
def compactors(spec: Spec, scale: Scale, folder: Path) -> Iterator[Heard]:
    """Compact again and again while the block runs."""
    heard, on, until = Heard(), folder / "on", folder / "until"
    rests = {"compact": EVERY_S["compact"]}
    if scale.merges_logs:
        rests = {**EVERY_S, "compact": SELDOM_S}
    on.touch()
    victims = [
        Victim(
            "integration.storm_job", service.replace(" ", "-"),
            JobSpec(
                spec.root, spec.options, spec.hadoop, spec.lease_s, 0, service, every_s, str(on),
                str(until),
            ),
            folder, partial(heard.hear, service), blows(service, scale, spec.lease_s),
        )
        for service, every_s in rests.items()
    ]  # fmt: skip
    with ExitStack() as stack:
        for victim in victims:
            stack.enter_context(victim)
        for victim in victims:
            victim.go()
        try:
            yield heard
        finally:
            until.touch()
            ends = time.monotonic() + ENDS_WITHIN_S
            for victim in victims:
                late = not victim.join(ends)
                heard.problems += [f"{victim.name} had not ended in time"] if late else []
                heard.problems += [f"{victim.name} crashed"] if victim.dead else []
                heard.counts.update(victim.struck)


def run_left_plans(place: Place, options: Mapping[str, str], scale: Scale) -> None:
    """Run the plans whose runs have died: a plan stays until it has run."""
    for op in ("logCompact", "run") if scale.merges_logs else ("run",):
        pyhudi.compact(place.root, op=op, options=options, hadoop_options=place.hadoop)
