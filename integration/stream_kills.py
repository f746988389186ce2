"""Where a stream's driver dies: at a storage call, in a task, or when the sink has answered.

Invariant: it dies by SIGKILL, so nothing of it can clean up. What it did last is a line in a file.
"""

from __future__ import annotations

import fnmatch
import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pyhudi.storage.base import Storage
from pyhudi.storage.faults import Effect, Fault, FaultyStorage, SimulatedCrash

ANSWERED = "(answered)"
IN_A_TASK = "(task)"
#: paths of the calls of an epoch, the first that fits -> the step
STEPS = (
    (ANSWERED, "answered, not noted"),
    (IN_A_TASK, "in a task"),
    ("moment)", "any moment"),
    ("*.rollback*", "settling"),
    ("*.compaction.*", "compaction"),
    ("*hoodie.properties*", "making the table"),
    (".hoodie/.heartbeat/*", "heartbeat"),
    (".hoodie/.leases/*", "lease"),
    (".hoodie/.temp/*", "markers"),
    (".hoodie/.locks*", "lock"),
    (".hoodie/lock", "lock"),
    ("*.requested", "request"),
    ("*.inflight", "inflight"),
    ("*commit", "the put"),
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault of one life: an ``Effect`` by name, at the ``at``-th call that fits.

    ``path`` may also be ``ANSWERED``, when the sink has answered and Spark has not noted the batch,
    or ``IN_A_TASK``, as soon as a task has announced a data file.
    """

    effect: str
    path: str = "*"
    at: int = 1
    methods: str = "put_if_absent replace swap delete delete_folder"

    @property
    def fault(self) -> Fault:
        return Fault(Effect[self.effect], self.at, self.path, frozenset(self.methods.split()))

    @property
    def of_storage(self) -> bool:
        return not self.path.startswith("(")


def step_of(text: str) -> str:
    """The step of a call, told as ``FaultyStorage`` tells it: moment, method and paths."""
    path = text.split()[-1]
    return next((step for pattern, step in STEPS if fnmatch.fnmatchcase(path, pattern)), "other")


def die(deaths: str, text: str) -> None:
    """Note where, and be killed."""
    with Path(deaths).open("a") as kept:
        kept.write(text + "\n")
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()


class Deadly:
    """A faulty storage whose crashes are the end of this process."""

    def __init__(self, inner: FaultyStorage, deaths: str) -> None:
        self._inner, self._deaths = inner, deaths

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def called(*given: Any) -> Any:
            try:
                return found(*given)
            except SimulatedCrash as here:
                die(self._deaths, str(here))

        return called


class Storages:
    """Opens storages by ``open``, each once, so that a fault counts the calls of all questions."""

    def __init__(
        self, open_one: Callable[..., Storage], troubles: tuple[Trouble, ...], deaths: str
    ) -> None:
        self._open, self._deaths = open_one, deaths
        self._faults = [each.fault for each in troubles if each.of_storage]
        self._opened: dict[str, Storage] = {}

    def __call__(self, root: str, *more: Any) -> Storage:
        if root not in self._opened:
            faulty = FaultyStorage(self._open(root, *more), *self._faults)
            self._opened[root] = cast(Storage, Deadly(faulty, self._deaths))
        return self._opened[root]


def dies_when(troubles: tuple[Trouble, ...], path: str) -> Trouble | None:
    """The trouble at this place outside of the storage."""
    return next((each for each in troubles if each.path == path), None)


def answering(write: Callable[..., Any], at: int, deaths: str) -> Callable[..., Any]:
    """``write``, after whose ``at``-th answer the process dies."""
    answers = [0]

    def answered(*given: Any, **named: Any) -> Any:
        done = write(*given, **named)
        answers[0] += 1
        if answers[0] == at:
            die(deaths, f"after {ANSWERED}")
        return done

    return answered


def die_in_a_task(table: Path, deaths: str) -> None:
    """Die as soon as a task of an instant that is not there yet has announced a data file."""
    temp = table / ".hoodie" / ".temp"

    def announced() -> set[str]:
        found = [*temp.glob("*/*/*.marker.*"), *temp.glob("*/MARKERS0")]
        return {each.relative_to(temp).parts[0] for each in found}

    before = announced()

    def watch() -> None:
        while not announced() - before:
            threading.Event().wait(0.001)
        die(deaths, f"in {IN_A_TASK}")

    threading.Thread(target=watch, daemon=True).start()


def troubles_of(given: list[Mapping[str, Any]]) -> tuple[Trouble, ...]:
    """From JSON."""
    return tuple(Trouble(**each) for each in given)
