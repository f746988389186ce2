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
    Costs(0.001, 1, 1.42, 0.46, 0.26, 0.65, 1.01),
    Costs(0.01, 1, 1.39, 0.33, 0.26, 0.53, 1.22),
    Costs(0.05, 1, 1.42, 0.64, 0.36, 0.52, 1.52),
    Costs(0.2, 1, 2.37, 1.71, 0.73, 0.64, 2.38),
    Costs(0.5, 1, 8.62, 9.24, 1.96, 0.84, 3.97),
    # in as few files as hold them
    Costs(0.001, 0.1, 0.31, 0.22, 0.1, 0.56, 0.7),
    Costs(0.01, 0.1, 0.31, 0.23, 0.13, 0.49, 0.75),
    Costs(0.05, 0.1, 0.54, 0.46, 0.26, 0.53, 1.17),
    Costs(0.2, 0.2, 1.72, 1.76, 0.74, 0.54, 2.72),
    Costs(0.5, 0.5, 7.07, 7.88, 1.59, 0.88, 4.51),
)


def costs_of(share: float, rewritten: float) -> Costs:
    """The measured costs that are nearest by the logarithms of both parts, each above 0."""

    def distance(measured: Costs) -> float:
        return abs(log(measured.share / share)) + abs(log(measured.rewritten / rewritten))

    return min(MEASURED, key=distance)
