"""Which cells of a matrix `make test` runs; the others carry the mark ``matrix``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest


def cells(every: Sequence[Any], sample: Collection[Any]) -> list[Any]:
    """``every`` cell as parameters, of which ``sample`` has the ones that `make test` runs."""
    unknown = [cell for cell in sample if cell not in every]
    assert not unknown, f"{unknown} are none of {every}"
    return [_param(cell) if cell in sample else _param(cell, pytest.mark.matrix) for cell in every]


def versions(*sample: int, every: Sequence[int] = (9, 8, 6)) -> list[Any]:
    """The table versions. A test whose facts differ little between the two layouts takes one of
    them into the sample, and its neighbour the other."""
    return cells(every, sample)


def _param(cell: Any, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(*(cell if isinstance(cell, tuple) else (cell,)), marks=marks)
