"""Advice on a table's type, by what its writes change and what such writes cost when measured.

Reads are not recorded. So merge-on-read is advised with the number of reads up to which it is
cheaper, and copy-on-write only where one read for each write is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf
from statistics import median
from typing import Final

from pyhudi.choices import ConcurrencyMode
from pyhudi.diagnosis.shape_facts import FEW_COMMITS, Advice, Aspect, ShapeFacts
from pyhudi.diagnosis.table_types import Costs, costs_of
from pyhudi.text_table import size_text

#: bytes of base files that a write changes, from which the measured costs say something
LEAST_CHANGED: Final = 64 << 20
#: part of a write's cost that logs and their compactions may have
HALF: Final = 0.5
#: reads of the whole table for each write
ONE_READ: Final = 1.0


def merge_on_read(facts: ShapeFacts) -> Iterator[Advice]:
    """If logs and their compactions cost at most half of what copies cost.

    Not of a table with change logs, of which nothing was measured.
    """
    found = _habit(facts)
    if found is None or facts.cdc:
        return
    costs, evidence = found
    logs = costs.log_write + costs.compaction
    if logs > HALF * costs.copy_write or costs.break_even < ONE_READ:
        return
    reads = (
        "and no measurably dearer reads"
        if isinf(costs.break_even)
        else "and costs less as long as the whole table is read fewer than "
        f"{costs.break_even:.1f} times for each write"
    )
    yield Advice(
        Aspect.TABLE_TYPE,
        f"A merge-on-read table takes {_percent(logs / costs.copy_write)} of the CPU time for such "
        f"writes, compactions included, {reads}.",
        evidence,
        "If it is read less often, write the rows to a new table with "
        "hoodie.datasource.write.table.type=MERGE_ON_READ.",
    )


def copy_on_write(facts: ShapeFacts) -> Iterator[Advice]:
    """If one read of the whole table takes up what a write of logs saves."""
    found = _habit(facts)
    mode = facts.options.concurrency_mode
    if found is None or mode is ConcurrencyMode.NON_BLOCKING or found[0].break_even >= ONE_READ:
        return
    yield Advice(
        Aspect.TABLE_TYPE,
        "A copy-on-write table costs less CPU time as soon as the whole table is read once for "
        "each write: a write of logs saves little or nothing after its compaction.",
        found[1],
        "Write the rows to a new table with hoodie.datasource.write.table.type=COPY_ON_WRITE.",
    )


def _habit(facts: ShapeFacts) -> tuple[Costs, str] | None:
    """The measured costs of what writes change, and the evidence; None if there is no habit, or if
    both types cost the same."""
    changes, rows = facts.changes, facts.rows
    if len(changes) < FEW_COMMITS or not rows:
        return None
    held = int(median(change.held_bytes for change in changes))
    if held < LEAST_CHANGED:
        return None
    share = min(1.0, median(change.rows for change in changes) / rows)
    touched = min(1.0, held / sum(file.size_bytes for file in facts.files))
    costs = costs_of(share, touched)
    if costs.alike:
        return None
    written = sum(change.written_bytes for change in changes)
    evidence = (
        f"The median of {len(changes)} upserts and deletes changed {_percent(share)} of the rows, "
        f"in file groups with {_percent(touched)} of the bytes; together they wrote "
        f"{size_text(written)} for {sum(change.rows for change in changes):,} rows. Compared with "
        f"measurements of {_percent(costs.share)} in {_percent(costs.rewritten)}."
    )
    return costs, evidence


def _percent(part: float) -> str:
    return f"{part * 100:.2g}%" if part < 0.1 else f"{part:.0%}"
