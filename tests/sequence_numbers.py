"""Which random sequences a test draws: a sample always, and more of them in the matrix."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def asked(default: str) -> range:
    """The numbers that ``PYHUDI_SEQUENCES`` asks for, as ``41:42``, or the ``default`` ones."""
    first, end = map(int, os.environ.get("PYHUDI_SEQUENCES", default).split(":"))
    return range(first, end)


def numbers(sample: Sequence[int], more: Iterable[int]) -> list[Any]:
    """The values of a parameter: ``sample``, and ``more`` with the mark of the matrix."""
    others = (number for number in more if number not in sample)
    return [*sample, *(pytest.param(each, marks=pytest.mark.matrix) for each in others)]
