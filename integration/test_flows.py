"""What one upsert, read, ALTER and rollback pass on the driver; printed with ``-s``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from integration.flows import Flow
from tests.test_layers import LAYERS, PACKAGE, imported

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"(\w+): (\d+) modules, (\d+) returns, (\d+) callbacks")
#: returns and callbacks of each operation: less is better, and more needs a reason. Clean and
#: archive after a commit took three returns, the logs beside base files one of a read, the choice
#: of partitions and pending clusterings two of a write, dead clusterings one of a rollback, and one
#: more since their plans are read where those of compactions are, below the markers; the state in
#: front of the index took eight of an upsert, and a callback that reads what it lacks; the marks of
#: streams, which each commit carries on, two, and the repetition of a write, which the explorer
#: runs too, three and its attempt as a callback; the type of the table, which names the action of a
#: commit and says whether there are logs, two of an upsert and one of an ALTER; what no property
#: records of keys and buckets, two of an upsert; how the properties say that rows merge, one
MOST = {"upsert": (74, 10), "read": (6, 0), "ALTER": (35, 4), "rollback": (4, 0)}


def test_no_operation_goes_back_more_often_than_it_did() -> None:
    # In a process of its own: the writer without Spark replaces what others here need.
    run = [sys.executable, "-m", "integration.flows"]
    told = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    print(f"\n{graph()}\n{told}")
    lines = {name: tuple(map(int, counts)) for name, *counts in LINE.findall(told)}
    assert lines.keys() == MOST.keys()
    assert all(modules > 20 for modules, _, _ in lines.values()), "the operations ran"
    grown = {n: c for n, (_, *c) in lines.items() if any(map(int.__gt__, c, MOST[n]))}
    assert grown == {}, "python -m integration.flows --details names the steps"


def test_a_step_into_a_module_that_was_left_is_a_return() -> None:
    a, b, c = "pyhudi.writes.a", "pyhudi.writes.b", "pyhudi.timeline.c"
    assert Flow(((a, b), (a, c))).returns() == []
    assert Flow(((a, b), (a, c), (c, b))).returns() == [(c, b)]
    assert Flow(((a, b), (b, "pyhudi.errors"), (a, "pyhudi.errors"))).returns() == []


def test_a_step_that_no_import_leads_to_is_a_callback() -> None:
    a, b, s3 = "pyhudi.writes.a", "pyhudi.writes.b", "pyhudi.storage.s3"
    reached = {a: {a, b}, b: {b}}
    assert Flow(((a, b), (b, a), (b, s3))).callbacks(reached) == [(b, a)]


def graph() -> str:
    """The packages by layer, each with those that it imports."""
    arrows: dict[str, set[str]] = {layer: set() for layer in LAYERS}
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).with_suffix("").parts[0].replace("__init__", "")
        names = [n.split(".") for n in imported(path.read_text()) if n.startswith("pyhudi.")]
        arrows[own] |= {parts[1] for parts in names if parts[1] in LAYERS} - {own}
    lines = [
        f"{LAYERS[name]:>3} {name or 'pyhudi'} -> {', '.join(sorted(arrows[name])) or 'nothing'}"
        for name in sorted(LAYERS, key=lambda name: (LAYERS[name], name))
    ]
    total = sum(map(len, arrows.values()))
    return "\n".join([*lines, f"{len(LAYERS)} packages, {total} arrows, none of them up"])
