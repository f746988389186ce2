"""Which modules one operation passes on the driver, and how often it comes back to one it had left.

``python -m integration.flows`` runs an upsert, a read, an ALTER and a rollback without Spark on a
table of local disk, and follows each call from one module of the package into another. A step that
was taken before counts once, so loops over files weigh nothing. A return is a step into a module,
or a folder, that the operation had been in before and had left by another call. Modules that any
other may use (errors, the clock, options, formats, storage) count as passed and never as returns.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

from integration.storm_writer import (
    SEEDER,
    Spec,
    group_keys,
    runtime_without_spark,
    upserts_without_spark,
)
from pyhudi.application.runtime import Runtime
from pyhudi.clock import SystemClock
from pyhudi.reads.scan import describe, open_query, plan_scan
from pyhudi.services.failed_writes import settle_now
from pyhudi.tables.alter import alter_columns
from pyhudi.timeline.table import open_table

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "key",
    "hoodie.datasource.write.partitionpath.field": "dt",
}


NEW_COLUMN = {
    "change": "add",
    "column": "more",
    "type": "long",
    "nullable": True,
    "comment": None,
    "position": None,
}


#: what every layer may use
LEAVES = {"clock", "config", "errors", "format", "recent", "storage"}


@dataclass
class Flow:
    """The steps of one operation, each once, in their order."""

    steps: dict[tuple[str, str], None]

    def of(self, unit: Callable[[str], str]) -> tuple[int, int]:
        """How many units it passes, and how many steps return to one that it had left."""
        seen: set[str] = set()
        done: set[tuple[str, str]] = set()
        returns = 0
        for source, target in self.steps:
            step = unit(source), unit(target)
            if step[0] == step[1] or step in done:
                continue
            done.add(step)
            returns += step[1] in seen and package(target) not in LEAVES
            seen |= set(step)
        return len(seen), returns


def followed(operation: Callable[[], Any]) -> Flow:
    """Run ``operation`` and note each call between two modules of the package."""
    steps: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        target = frame.f_globals.get("__name__", "")
        if not target.startswith("pyhudi."):
            return
        caller = frame.f_back
        while caller is not None:
            source = caller.f_globals.get("__name__", "")
            if source.startswith("pyhudi."):
                if source != target:
                    steps.setdefault((source, target))
                return
            caller = caller.f_back

    sys.setprofile(note)
    try:
        operation()
    finally:
        sys.setprofile(None)
    return Flow(steps)


def package(module: str) -> str:
    """The folder of a module, as ``spark`` or ``transactions``."""
    return module.split(".")[1]


def main() -> None:
    """Print what each operation passes."""
    with tempfile.TemporaryDirectory() as place:
        root = str(Path(place) / "t")
        seeding, spec = (Spec(root, OPTIONS, {}, 60.0, "", w, 1, 0, 1) for w in (SEEDER, 0))
        upserts_without_spark(seeding, silent)(rows(), "first")
        upsert = upserts_without_spark(spec, silent)
        runtime = runtime_without_spark(spec, silent)
        flows = {
            "upsert": followed(lambda: upsert(rows(), "second")),
            "read": followed(lambda: read(runtime, root)),
            "ALTER": followed(lambda: alter_columns(runtime, root, [NEW_COLUMN], {}, {})),
            "rollback": followed(lambda: roll_back(runtime, root)),
        }
    for name, flow in flows.items():
        modules, returns = flow.of(str)
        packages, between = flow.of(package)
        print(
            f"{name}: {modules} modules with {returns} returns, "
            f"{packages} folders with {between} returns"
        )


def silent(event: str, **more: Any) -> None:
    """Nobody reads what the writer tells."""


def rows() -> pa.Table:
    """The keys of one file group."""
    keys = group_keys("p0", 0)
    return pa.table(
        {
            "key": [key for key, _ in keys],
            "dt": [place for _, place in keys],
            "writer": pa.array([0] * len(keys), pa.int64()),
            "number": pa.array([0] * len(keys), pa.int64()),
        }
    )


def read(runtime: Runtime, root: str) -> None:
    """Describe the table and plan a scan, as the shim's two questions do."""
    query = open_query(runtime, root, {}, {})
    describe(query)
    plan_scan(query, [{"op": "eq", "column": "dt", "value": "p0"}])


def roll_back(runtime: Runtime, root: str) -> None:
    """Settle a write whose writer died right after its request."""
    died = Path(root) / ".hoodie" / "timeline" / "20200101000000000.commit.requested"
    died.write_bytes(b"")
    table = open_table(runtime.storage(root))
    done = settle_now(table, runtime.lock, SystemClock(), {}, {})
    assert [each.instant for each in done] == ["20200101000000000"]


if __name__ == "__main__":
    main()
