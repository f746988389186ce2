"""Two writes of one table at the same time, the order of their commits in the test's hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame

from pyhudi.transactions.transaction import Transaction

WAIT_S = 120


class SlowInput:
    """Rows whose evaluation waits, the first time, until ``go`` is called.

    A write evaluates its input after it has begun, so whatever is committed before ``go`` came
    between. ``evaluations`` counts how often the rows were computed.
    """

    def __init__(self, rows: DataFrame, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self.df = rows.coalesce(1).mapInPandas(_waiting(str(folder)), rows.schema)

    def wait_until_read(self) -> None:
        """Return once a task has begun to read."""
        _wait_for(self._folder / "read")

    def go(self) -> None:
        """Let the rows come."""
        (self._folder / "go").touch()

    @property
    def evaluations(self) -> int:
        """How many tasks have computed the rows."""
        return len((self._folder / "read").read_text())


def _waiting(folder: str):  # type: ignore[no-untyped-def]
    def run(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import time
        from pathlib import Path

        with open(f"{folder}/read", "a") as file:
            file.write("x")
        ends = time.monotonic() + 120
        while not Path(folder, "go").exists() and time.monotonic() < ends:
            time.sleep(0.02)
        yield from batches

    return run


def _wait_for(path: Path) -> None:
    ends = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < ends, f"nobody made {path}"
        time.sleep(0.02)


@contextmanager
def in_background(work, *args, **more) -> Iterator[Future[None]]:  # type: ignore[no-untyped-def]
    """Run ``work`` in a thread; its error comes with ``result``."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work, *args, **more)


def overtaken(monkeypatch: pytest.MonkeyPatch, other: Callable[[], None]) -> list[str]:
    """Run ``other`` once, when the next epoch of a stream has written its files.

    A stream evaluates its input before it begins, so slow input comes too early. Returns the
    instants of the epochs that got there, as they come.
    """
    seal, instants = Transaction.seal, list[str]()

    def sealed(transaction: Transaction, *given: object, **named: object) -> None:
        if transaction.epoch is not None:
            instants.append(transaction.instant)
            if len(instants) == 1:
                with in_background(other) as done:
                    done.result()
        seal(transaction, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Transaction, "seal", sealed)
    return instants
