"""Fixtures of the tests of timelines and views."""

from __future__ import annotations

import pytest

from tests.timeline.bare import Bare


@pytest.fixture(params=[1, 2], ids=["layout 1", "layout 2"])
def bare(request: pytest.FixtureRequest) -> Bare:
    return Bare(request.param)
