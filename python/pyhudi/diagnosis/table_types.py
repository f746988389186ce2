"""Copy-on-write or merge-on-read: what a write and a read cost by the share of rows that changes.

A write of merge-on-read is cheaper, and so is a read of copy-on-write. Which type costs less
depends on how often the table is read between two writes, which a table does not record. So the
answer is a number of reads, the break-even.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Final


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU seconds for a table of a million rows.

    Each write changes the part ``share`` of the rows, in files with the part ``rewritten`` of all
    bytes. ``log_read`` is the mean between two compactions, ``compaction`` the part of one write.
    """

    share: float
    rewritten: float
    copy_write: float
    log_write: float
    compaction: float
    copy_read: float
    log_read: float

    @property
    def alike(self) -> bool:
        """Whether merge-on-read rewrites the same files: nothing is left to compact."""
        return self.compaction == 0

    @property
    def saved(self) -> float:
        """What a write of merge-on-read saves, its part of the compaction included; may be
        negative."""
        return self.copy_write - self.log_write - self.compaction

    @property
    def break_even(self) -> float:
        """Reads of the whole table for each write at which both types cost the same.

        With fewer reads merge-on-read costs less: 0 where it never does, infinity where it always
        does.
        """
        if self.saved <= 0:
            return 0.0
        dearer = self.log_read - self.copy_read
        return self.saved / dearer if dearer > 0 else inf


#: from a run of ``python -m benchmarks.table_types``, whose page is docs/table_types.md
MEASURED: Final[tuple[Costs, ...]] = (
    # changed rows in all files
    Costs(0.001, 1, 1.69, 0.54, 0.26, 0.71, 1.12),
    Costs(0.01, 1, 1.78, 0.44, 0.3, 0.62, 0.9),
    Costs(0.05, 1, 1.78, 0.85, 0.4, 0.59, 1.83),
    Costs(0.2, 1, 2.79, 2.14, 0.76, 0.69, 1.57),
    Costs(0.5, 1, 9.96, 9.52, 0, 0.84, 0.73),
    # in as few files as hold them
    Costs(0.001, 0.1, 0.42, 0.25, 0.11, 0.63, 0.68),
    Costs(0.01, 0.1, 0.53, 0.33, 0.2, 0.55, 0.79),
    Costs(0.05, 0.1, 0.71, 0.76, 0, 0.72, 0.76),
    Costs(0.2, 0.2, 1.77, 1.69, 0, 0.59, 0.61),
    Costs(0.5, 0.5, 8.58, 8.18, 0, 1.01, 0.94),
)


def costs_of(share: float, rewritten: float) -> Costs:
    """The measured costs that are nearest by the logarithms of both parts, each above 0."""

    def distance(measured: Costs) -> float:
        return abs(log(measured.share / share)) + abs(log(measured.rewritten / rewritten))

    return min(MEASURED, key=distance)
