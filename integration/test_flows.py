"""What one upsert, read, ALTER and rollback pass on the driver; printed with ``-s``."""

from __future__ import annotations

from pathlib import Path

from integration.flows import Flow, measured, reached_by_imports, report
from tests.test_layers import LAYERS, PACKAGE, imported

#: returns and callbacks of each operation: less is better, and more needs a reason
MOST = {"upsert": (51, 8), "read": (5, 0), "ALTER": (27, 4), "rollback": (2, 0)}


def test_no_operation_goes_back_more_often_than_it_did(tmp_path: Path) -> None:
    flows = measured(str(tmp_path / "t"))
    print(f"\n{graph()}\n{report(flows, details=False)}")
    reached = reached_by_imports()
    found = {n: (len(f.returns()), len(f.callbacks(reached))) for n, f in flows.items()}
    grown = {n: each for n, each in found.items() if any(map(int.__gt__, each, MOST[n]))}
    assert grown == {}, "python -m integration.flows --details names the steps"
    assert all(len(flow.modules()) > 20 for flow in flows.values()), "the operations ran"


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
