"""How long a write that lost its race takes until it is in the table, measured in one engine.

The write has begun and waits for its input when another one commits changes of the same rows. From
then on the clock runs. What an engine does not try again by itself is tried again by a loop, as its
users would. The same write with nobody beside it says what of that time is the write itself.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines.base import Engine
from tests.spark.racing import SlowInput

ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Landing:
    """Seconds from when the input came until the rows were in, and the errors on the way."""

    seconds: float
    errors: int


def overtaken(engine: Engine, table: str, sources: list[str]) -> list[dict[str, Any]]:
    """For each three inputs: a write alone, then one that another overtakes; see ``Landing``.

    All inputs change the same rows of ``table``, so that the two writes cannot but conflict.
    """
    engine.expect_other_writers()
    rounds = []
    for number in range(0, len(sources), 3):
        alone, other, ours = sources[number : number + 3]
        folder = engine.root / "waiting" / f"{table}-{number}"
        rounds.append(
            {
                "alone": asdict(_landing(engine, table, alone, folder / "alone", None)),
                "overtaken": asdict(_landing(engine, table, ours, folder / "overtaken", other)),
            }
        )
    return rounds


def _landing(engine: Engine, table: str, source: str, folder: Path, other: str | None) -> Landing:
    rows = engine.spark.read.parquet(source)
    held = SlowInput(rows, folder)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(_until_it_lands, engine, table, held)
        try:
            held.wait_until_read()
            if other is not None:
                engine.upsert(table, engine.spark.read.parquet(other))
        finally:
            begin = time.perf_counter()
            held.go()
        errors = done.result()
        return Landing(time.perf_counter() - begin, errors)


def _until_it_lands(engine: Engine, table: str, held: SlowInput) -> int:
    """The loop of a user: how often the write failed before it was in the table."""
    for errors in range(ATTEMPTS):
        try:
            engine.upsert(table, held.df)
        except Exception:
            if errors == ATTEMPTS - 1:
                raise
        else:
            return errors
    raise AssertionError("the last attempt returns or raises")
