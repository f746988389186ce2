"""Writes of pyhudi that stand open until a test lets them commit.

They run in threads of the test's process, without Spark as the writers of a storm do, on tables
of the storm's rows. What comes before ``go`` comes between the load of the timeline, on which the
data files were written, and the commit.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from integration.storm_writer import SCHEMA, Spec, do_without_spark, module, runtime_without_spark
from pyhudi.application.runtime import Runtime
from pyhudi.config import resolve_write
from pyhudi.storage.local import LocalStorage
from pyhudi.tables.create import create_table, new_table_config
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.transaction import Committed, Transaction
from pyhudi.writes.intent import Intent, Route
from pyhudi.writes.write import write_table

DS = "hoodie.datasource.write."
RETRIES = "hoodie.write.num.retries.on.conflict.failures"
WAIT_S = 120
#: a write waits for the next beat of one that is pending
BEATS = {
    "hoodie.client.heartbeat.interval_in_ms": "300",
    "hoodie.client.heartbeat.tolerable.misses": "400",
}


def options_of(version: int) -> dict[str, str]:
    """What the writers of both engines are given."""
    return {
        "hoodie.table.name": "open",
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.enable": "false",
        DS + "recordkey.field": "key",
        DS + "partitionpath.field": "dt",
        DS + "precombine.field": "number",
        DS + "operation": "upsert",
    }


def rows(keys: str, number: int, dt: str = "a") -> pa.Table:
    """A row for each letter of ``keys``; the latest ``number`` counts."""
    return pa.table(
        {
            "key": list(keys),
            "dt": [dt] * len(keys),
            "writer": pa.array([0] * len(keys), pa.int64()),
            "number": pa.array([number] * len(keys), pa.int64()),
        }
    )


class OpenWriter:
    """Writes to the table at ``path``, which is made by the first of them."""

    def __init__(self, path: Path, version: int, patch: pytest.MonkeyPatch) -> None:
        self.path, self.version = path, version
        part = module("pyhudi.writes.write")
        patch.setattr(part, "prepare", part.prepare)
        do_without_spark()
        self._open: dict[int, _Gate] = {}
        patch.setattr(Transaction, "commit", self._commits(Transaction.commit))

    def _commits(self, commit: Any) -> Any:
        def gated(transaction: Transaction, *args: Any, **more: Any) -> Committed:
            gate = self._open.pop(threading.get_ident(), None)
            if gate is not None:
                gate.instant = transaction.instant
                gate.reached.set()
                assert gate.passed.wait(WAIT_S)
            return cast(Committed, commit(transaction, *args, **more))

        return gated

    def _runtime(self) -> Runtime:
        spec = Spec(str(self.path), {}, {}, 60.0, "", 0, 1, 0, 1)
        return runtime_without_spark(spec, lambda event, **more: None)

    def table(self) -> Table:
        """The table as it is now."""
        return open_table(LocalStorage(str(self.path)))

    def create(self) -> None:
        """Make the table."""
        options = resolve_write(options_of(self.version), None, {})
        config = new_table_config(str(self.path), options, SCHEMA, record_schema=False)
        runtime = self._runtime()
        create_table(runtime, runtime.storage(str(self.path)), config, options)

    def write(self, given: pa.Table, **more: str) -> Committed:
        """Upsert rows and commit."""
        done = write_table(
            self._runtime(),
            cast(Any, given),
            str(self.path),
            {**options_of(self.version), **BEATS, **more},
            {},
            lambda exists: Intent(Route.SAVE),
        )
        assert done is not None
        return done

    def begin(self, given: pa.Table, **more: str) -> Open:
        """Upsert rows up to the commit."""
        gate = _Gate()

        def work() -> Committed:
            self._open[threading.get_ident()] = gate
            return self.write(given, **more)

        pool = ThreadPoolExecutor(1)
        future = pool.submit(work)
        pool.shutdown(wait=False)
        future.add_done_callback(lambda _: gate.reached.set())
        assert gate.reached.wait(WAIT_S)
        if future.done():
            future.result()
        return Open(gate, future)


class _Gate:
    def __init__(self) -> None:
        self.reached, self.passed = threading.Event(), threading.Event()
        self.instant = ""


class Open:
    """A write whose data files are written; ``go`` lets it commit."""

    def __init__(self, gate: _Gate, future: Future[Committed]) -> None:
        self._gate, self._future = gate, future

    @property
    def instant(self) -> str:
        """The instant of its first attempt."""
        return self._gate.instant

    def go(self) -> Committed:
        """Commit; raises what the write raises."""
        self._gate.passed.set()
        return self._future.result(WAIT_S)


def numbers(found: Mapping[str, Any] | Any) -> dict[str, int]:
    """``number`` by key, from the rows of any reader; no key twice."""
    pairs = [(row["key"], row["number"]) for row in found]
    assert len(dict(pairs)) == len(pairs), f"a key is there twice: {sorted(pairs)}"
    return dict(pairs)
