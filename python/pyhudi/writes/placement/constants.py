"""Numbers of the plan as a constant column."""

from __future__ import annotations

from collections.abc import Sequence

import pyspark.sql.functions as F
from pyspark.sql import Column


def ints(values: Sequence[int]) -> Column:
    """``values`` as an array of ints: one call for any length, which Spark folds.

    The text of no values is no number, so Spark 4 would refuse to cast it.
    """
    if not values:
        return F.array().cast("array<int>")
    return F.split(F.lit(",".join(map(str, values))), ",").cast("array<int>")
