"""What `make quick` leaves out by itself: tests that start a server of their own."""

from __future__ import annotations

import os
from typing import Final

import pytest

QUICK: Final = "PYHUDI_QUICK"


def starts_a_server() -> None:
    """Skip the test that would start one, where the run is to be quick."""
    if os.environ.get(QUICK):
        pytest.skip("starts a server, which make quick does not")
