"""The implementations that the contract suites run against."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyhudi.storage.base import Storage
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty table on each storage in turn."""
    if request.param == "memory":
        return MemoryStorage()
    return LocalStorage(str(tmp_path / "a table=50% ö"))
