"""How long writers stand in line for each lock: ``python -m integration.storm_waits [PLACE ...]``.

Processes take one lock in turns, hold it for a moment as a commit does and ask again at once. What
they tell goes into the table of docs/locks.md, of which the lines of other locks are kept.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from integration.peers.process import claim_stdout
from integration.peers.spark import child_environment
from integration.storm_places import PLACES, Place, place
from pyhudi.clock import SystemClock
from pyhudi.config import resolve_write
from pyhudi.locks.base import LockOwner
from pyhudi.locks.open import LockOpener
from pyhudi.storage.open import open_storage

PAGE = Path(__file__).parents[1] / "docs" / "locks.md"
BEGIN, END = "<!-- waits: begin -->", "<!-- waits: end -->"
HEAD = (
    "lock",
    "on",
    "waiters",
    "turns/s",
    "wait, s: median",
    "of ten, nine within",
    "longest",
    "passed by",
)
NAMED = 3  # columns that tell which run it was
WAITERS, TURNS, HOLD_S, PATIENCE_S = 16, 10, 0.1, 600.0


@dataclass(frozen=True, slots=True)
class Turn:
    """Monotonic seconds of the machine: when somebody asked, and when they had the lock."""

    asked: float
    got: float

    @property
    def waited(self) -> float:
        return self.got - self.asked


def passed_by(turns: Sequence[Turn]) -> int:
    """The most of those who asked later than somebody and had the lock before them."""
    return max(
        sum(one.asked > turn.asked and one.got < turn.got for one in turns) for turn in turns
    )


def line(where: Place, waiters: int, turns: Sequence[Turn]) -> tuple[str, ...]:
    """What the page tells of one lock."""
    waits = sorted(turn.waited for turn in turns)
    span = max(turn.got for turn in turns) - min(turn.got for turn in turns)
    return (
        where.lock,
        where.storage,
        str(waiters),
        f"{(len(turns) - 1) / span:.1f}",
        f"{statistics.median(waits):.1f}",
        f"{waits[int(0.9 * len(waits))]:.1f}",
        f"{waits[-1]:.1f}",
        str(passed_by(turns)),
    )


def stand_in_line(name: str, waiters: int) -> tuple[str, ...]:
    """Run the lock of this name with so many processes; its line of the table."""
    with (
        tempfile.TemporaryDirectory(prefix=f"waits-{name}-") as folder,
        place(name, Path(folder)) as where,
    ):
        said = {"root": where.root, "hadoop": where.hadoop, "options": dict(where.options)}
        command = [sys.executable, "-m", "integration.storm_waits", "--wait", json.dumps(said)]
        env = child_environment(sys.executable)
        processes = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
            )
            for _ in range(waiters)
        ]
        try:
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
            told = [json.loads(process.communicate()[0]) for process in processes]
        finally:
            for process in processes:
                process.kill()
        return line(where, waiters, [Turn(*turn) for turns in told for turn in turns])


def wait(said: str) -> None:
    """The child: take turns once a line on stdin says so, then tell of them."""
    answers, clock, given = claim_stdout(), SystemClock(), json.loads(said)
    storage = open_storage(given["root"], given["hadoop"], clock)
    options = resolve_write({"hoodie.table.name": "storm", **given["options"]})
    lock = LockOpener(clock, lambda root: storage).open(options.lock, "storm", storage)
    turns = []
    print("ready", file=answers, flush=True)
    sys.stdin.readline()
    for number in range(TURNS):
        asked = clock.monotonic()
        lock.acquire(PATIENCE_S, LockOwner.this_process(f"{number:017}"))
        turns.append((asked, clock.monotonic()))
        lock.check()
        clock.sleep(HOLD_S)
        lock.release()
    print(json.dumps(turns), file=answers, flush=True)


def publish(text: str, lines: Sequence[tuple[str, ...]]) -> str:
    """The page with these lines in its table, in place of those of the same runs."""
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    old = [tuple(row.strip("| ").split(" | ")) for row in table.strip().splitlines()[2:]]
    rows = {row[:NAMED]: row for row in (*old, *lines)}
    made = "\n".join(
        "| " + " | ".join(row) + " |" for row in (HEAD, ("---",) * len(HEAD), *rows.values())
    )
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def main() -> None:
    """Run the locks that are named, or all, and publish what was seen."""
    parser = argparse.ArgumentParser("python -m integration.storm_waits", description=__doc__)
    parser.add_argument("place", nargs="*", help=f"all, or some of {', '.join(PLACES)}")
    parser.add_argument("--waiters", type=int, default=WAITERS)
    parser.add_argument("--wait", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.wait:
        wait(given.wait)
        return
    if unknown := set(given.place) - set(PLACES):
        parser.error(f"no such place: {', '.join(sorted(unknown))}")
    for name in given.place or PLACES:
        found = stand_in_line(name, given.waiters)
        print(dict(zip(HEAD, found, strict=True)), flush=True)
        PAGE.write_text(publish(PAGE.read_text(encoding="utf-8"), [found]), encoding="utf-8")


if __name__ == "__main__":
    main()
