"""The page "Which table type?", made from what ``benchmarks.table_types`` found."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from benchmarks.data import REGIONS
from benchmarks.tables import table
from pyhudi.diagnosis.table_types import Costs

REPO = Path(__file__).resolve().parents[1]
RESULTS = REPO / "benchmarks" / "results" / "table_types" / "findings.json"
PAGE = REPO / "docs" / "table_types.md"
COPIES, LOGS = "copy-on-write", "merge-on-read"
SPREAD, CLUSTERED = "spread over all files", "in few files"
HEADER = """# Which table type?

`python -m benchmarks.table_types` writes this page (`--help` for sizes). It compares pyhudi's two
types of tables with each other, and no other engine.

"""


@dataclass
class Cell:
    """What one type costs where each write changes one share of the rows.

    ``cpu`` has CPU seconds by the name of what was done; ``written`` the bytes of each write.
    """

    type: str
    where: str
    share: float
    cpu: dict[str, list[float]] = field(default_factory=dict)
    written: list[int] = field(default_factory=list)
    compaction_bytes: int = 0

    def add(self, what: str, seconds: float) -> None:
        self.cpu.setdefault(what, []).append(round(seconds, 2))

    def median(self, what: str) -> float:
        return statistics.median(self.cpu[what])

    def mean(self, what: str) -> float:
        """The mean of the medians after the first write and after the last."""
        return (self.median(f"{what}, first") + self.median(f"{what}, last")) / 2


@dataclass
class Findings:
    """A run: ``writes`` before the compaction of a table of ``rows``."""

    rows: int
    writes: int
    cells: list[Cell] = field(default_factory=list)
    #: what a reader must know of the machine meanwhile
    note: str = ""

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(dataclasses.asdict(self), separators=(",", ":"))
        path.write_text(text.replace('{"type"', '\n{"type"'), encoding="utf-8")

    def pairs(self, where: str) -> list[tuple[Cell, Cell]]:
        """(copy-on-write, merge-on-read) for each share."""
        by_type = {
            name: {c.share: c for c in self.cells if (c.where, c.type) == (where, name)}
            for name in (COPIES, LOGS)
        }
        return [(cell, by_type[LOGS][share]) for share, cell in by_type[COPIES].items()]

    def costs(self, where: str, read: str = "full read") -> list[Costs]:
        """For a million rows."""
        scale = self.rows / 1e6
        return [
            Costs(
                copies.share,
                math.ceil(copies.share * REGIONS) / REGIONS if where == CLUSTERED else 1.0,
                *(
                    round(seconds / scale, 2)
                    for seconds in (
                        copies.median("write"),
                        logs.median("write"),
                        logs.median("compaction") / self.writes,
                        copies.mean(read),
                        logs.mean(read),
                    )
                ),
            )
            for copies, logs in self.pairs(where)
        ]


def load(path: Path = RESULTS) -> Findings:
    raw = json.loads(path.read_text(encoding="utf-8"))
    return Findings(**{**raw, "cells": [Cell(**cell) for cell in raw["cells"]]})


def page(found: Findings) -> str:
    """The whole page."""
    parts = [HEADER.rstrip(), _how(found)]
    for where in (SPREAD, CLUSTERED):
        parts.append(f"## Changed rows {where}")
        parts.append(table(_COLUMNS, _rows(found, where)))
        parts.append(f"### Break-even, changed rows {where}\n\n" + _break_evens(found, where))
    parts.append(READING)
    return "\n\n".join(parts) + "\n"


def _how(found: Findings) -> str:
    note = f"\n\n{found.note}" if found.note else ""
    return f"""A table of {found.rows:,} rows lies in ten partitions of one file each. Each write is
an upsert of rows that are there. A share of the rows is drawn from the whole table, or from as few
partitions as hold it. {found.writes} writes come one after another, then the compaction of the
merge-on-read table. Reads are measured after the first and after the last write; a figure of reads
is the mean of both. All is done by one Spark application, which remembers merges of logs for its
next reads: two full reads come before the lookups. Nothing is cleaned. The tables had the same
checksum after the last write and after the compaction.

The figures are CPU seconds of the whole process tree on one machine with two cores, not wall
seconds. A cell is one run: differences below a tenth of a second or below ten per cent say nothing.
The table is small: what each write and each read costs in any case weighs more than in a large
table, most of all where few files change.{note}"""


_COLUMNS = (
    "rows changed", "type", "write, CPU s", "write, MB", "compaction for each write, CPU s",
    "compaction for each write, MB", "full read, CPU s", "key lookup, CPU s",
    "read-optimized read, CPU s",
)  # fmt: skip


def _rows(found: Findings, where: str) -> Iterable[tuple[str, ...]]:
    for pair in found.pairs(where):
        for cell in pair:
            logs = cell.type == LOGS
            compaction = cell.median("compaction") / found.writes if logs else 0
            yield (
                percent(cell.share),
                cell.type,
                f"{cell.median('write'):.2f}",
                f"{statistics.median(cell.written) / 1e6:.1f}",
                f"{compaction:.2f}" if logs else "",
                f"{cell.compaction_bytes / found.writes / 1e6:.1f}" if logs else "",
                f"{cell.mean('full read'):.2f}",
                f"{cell.mean('key lookup'):.2f}",
                f"{cell.median('read-optimized read'):.2f}" if logs else "",
            )


def _break_evens(found: Findings, where: str) -> str:
    scans, lookups = found.costs(where), found.costs(where, "key lookup")
    rows = (
        (percent(scan.share), f"{scan.saved:.2f}", times(scan), times(look))
        for scan, look in zip(scans, lookups, strict=True)
    )
    return table(
        ("rows changed", "saved for each write, CPU s per million rows", "full reads", "lookups"),
        rows,
    )


def percent(share: float) -> str:
    return f"{share * 100:g} %"


def times(costs: Costs) -> str:
    """The break-even as a number of reads."""
    if costs.alike:
        return "the same"
    if costs.break_even == inf:
        return "any"
    return f"{costs.break_even:.1f}" if costs.break_even < 10 else f"{costs.break_even:.0f}"


READING = """## How to read the break-even

*Saved* is what a write of copy-on-write costs more than one of merge-on-read and its part of the
compaction. *full reads* and *lookups* say how often the table may be read for each write until the
dearer reads of logs have used that up. With fewer reads merge-on-read costs less, with more
copy-on-write does. *0.0* means that copy-on-write always costs less, *any* that reads of the logs
were not measurably dearer, *the same* that writes of both types rewrite the same files.

Costs are not all: writers
[without coordination](many_writers.md#writers-that-do-not-wait-for-each-other) need merge-on-read,
and more engines read copy-on-write. `pyhudi.advise` compares these figures with
[what a table's own commits changed](decisions/shape_advice.md)."""
