"""Which modules one operation passes on the driver, and how often it comes back to one it had left.

``python -m integration.flows`` runs an upsert, a read, an ALTER and a rollback without Spark on a
table of local disk, and follows each call from one module of the package into another. A step that
was taken before counts once, so loops over files weigh nothing. Two kinds of way back are counted:

* a return is a step into a module that the operation had been in before and had left. Modules that
  any other may use (errors, the clock, options, formats, storage) count as passed and never as
  returns, and a question to a frozen value, which travels with the operation, is no step;
* a callback is a step into a module that the caller's imports do not reach, so that a reader who
  follows the imports does not find it. A backend behind its protocol is none.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
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
from pyhudi.reads.conditions import Compare, Comparison, Text
from pyhudi.reads.scan import describe, open_query
from pyhudi.reads.scan_plan import plan_scan
from pyhudi.services.failed_writes import settle_now
from pyhudi.tables.alter import alter_columns
from pyhudi.tables.column_changes import AddColumn
from pyhudi.timeline.table import open_table
from tests.test_layers import PACKAGE, imported

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "key",
    "hoodie.datasource.write.partitionpath.field": "dt",
}


NEW_COLUMN = AddColumn(("more",), "long", True, None)


#: what every layer may use
LEAVES = {"choices", "clock", "config", "errors", "format", "recent", "storage"}
#: what callers know by a protocol of theirs alone
BACKENDS = {"pyhudi.storage", "pyhudi.locks", "pyhudi.application"}

Step = tuple[str, str]


@dataclass(frozen=True)
class Flow:
    """The steps of one operation between modules, each once, in their order."""

    steps: tuple[Step, ...]

    def modules(self) -> set[str]:
        """The modules that it passes."""
        return {module for step in self.steps for module in step}

    def returns(self) -> list[Step]:
        """The steps into a module that it had been in."""
        seen: set[str] = set()
        found = []
        for source, target in self.steps:
            if target in seen and package(target) not in LEAVES:
                found.append((source, target))
            seen |= {source, target}
        return found

    def callbacks(self, reached: Mapping[str, set[str]]) -> list[Step]:
        """The steps into a module that is not ``reached`` from the caller by imports."""
        return [
            (source, target)
            for source, target in self.steps
            if target not in reached[source] and target.rpartition(".")[0] not in BACKENDS
        ]


def followed(operation: Callable[[], Any]) -> Flow:
    """Run ``operation`` and note each call between two modules of the package."""
    steps: dict[Step, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        target = frame.f_globals.get("__name__", "")
        if not target.startswith("pyhudi.") or is_value(frame.f_locals.get("self")):
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
    return Flow(tuple(steps))


def is_value(subject: object) -> bool:
    """Whether it is a frozen dataclass or a member of an enumeration."""
    params = getattr(type(subject), "__dataclass_params__", None)
    return isinstance(subject, Enum) or (params is not None and params.frozen)


def reached_by_imports() -> dict[str, set[str]]:
    """For each module of the package the modules that its imports lead to."""
    direct = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        direct[name.removesuffix(".__init__")] = set(imported(path.read_text()))
    reached: dict[str, set[str]] = {}
    for name in direct:
        found, ahead = {name}, [name]
        while ahead:
            for each in direct[ahead.pop()] & direct.keys() - found:
                found.add(each)
                ahead.append(each)
        reached[name] = found
    return reached


def package(module: str) -> str:
    """The folder of a module, as ``spark`` or ``transactions``."""
    return module.split(".")[1]


def measured(root: str) -> dict[str, Flow]:
    """What each operation passes, on a new table at ``root``."""
    seeding, spec = (Spec(root, OPTIONS, {}, 60.0, "", w, 1, 0, 1) for w in (SEEDER, 0))
    upserts_without_spark(seeding, silent)(rows(), "first")
    upsert = upserts_without_spark(spec, silent)
    runtime = runtime_without_spark(spec, silent)
    return {
        "upsert": followed(lambda: upsert(rows(), "second")),
        "read": followed(lambda: read(runtime, root)),
        "ALTER": followed(lambda: alter_columns(runtime, root, [NEW_COLUMN], {}, {})),
        "rollback": followed(lambda: roll_back(runtime, root)),
    }


def report(flows: Mapping[str, Flow], details: bool) -> str:
    """One line an operation; with ``details`` the ways back as well."""
    reached, lines = reached_by_imports(), []
    for name, flow in flows.items():
        returns, callbacks = flow.returns(), flow.callbacks(reached)
        lines.append(
            f"{name}: {len(flow.modules())} modules, {len(returns)} returns, "
            f"{len(callbacks)} callbacks"
        )
        for kind, steps in (("returns", returns), ("callbacks", callbacks)) if details else ():
            lines += [f"  {kind}: {source} -> {target}" for source, target in steps]
    return "\n".join(lines)


def main() -> None:
    """Print what each operation passes."""
    with tempfile.TemporaryDirectory() as place:
        print(report(measured(str(Path(place) / "t")), details="--details" in sys.argv))


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
    plan_scan(query, [Compare(Comparison.EQUAL, "dt", Text("p0"))])


def roll_back(runtime: Runtime, root: str) -> None:
    """Settle a write whose writer died right after its request."""
    died = Path(root) / ".hoodie" / "timeline" / "20200101000000000.commit.requested"
    died.write_bytes(b"")
    table = open_table(runtime.storage(root))
    done = settle_now(table, runtime.lock, SystemClock(), {}, {})
    assert [each.instant for each in done] == ["20200101000000000"]


if __name__ == "__main__":
    main()
