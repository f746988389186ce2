"""Files whose footers are read after they were listed, and which were deleted in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.clock import SystemClock
from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.services.file_schemas import FileSchemas
from pyhudi.slices.files import BaseFile
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.table import Table, open_table
from pyhudi.writes.keys.key_encoding import _forms
from tests.golden_tables import COPY_ON_WRITE

TABLES = {t.version: t for t in COPY_ON_WRITE if t.moment is None and "keyless" not in t.table}


class World:
    """A golden table on disk, and its files as they were listed."""

    def __init__(self, folder: Path, version: int) -> None:
        self.root = TABLES[version].unzip(folder)
        storage = LocalStorage(str(self.root), SystemClock())
        self.table: Table = open_table(storage)
        self.files: list[BaseFile] = self.table.view(self.table.timeline()).latest()
        self.runtime = Runtime(
            SystemClock(), lambda root: storage, lambda root: (FileSystemSpec(), root),
            None, None,  # type: ignore[arg-type]
        )  # fmt: skip

    def schema(self) -> object:
        """As where the commit of the newest file was archived: the footer alone can tell."""
        timeline = self.table.timeline()
        history = SchemaHistory(self.table, timeline, None)
        return FileSchemas(self.runtime.filesystem, self.table, timeline, history).of_footer(
            self.files
        )

    def keys(self) -> object:
        return _forms(self.runtime, self.table, self.files)


@pytest.fixture(params=[6, 8, 9])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    return World(tmp_path, request.param)


@pytest.mark.parametrize("asked", [World.schema, World.keys])
def test_a_file_that_is_gone_since_it_was_listed_means_that_the_table_moved_on(
    world: World, asked: object
) -> None:
    assert asked(world)  # type: ignore[operator]
    for file in world.files:
        (world.root / file.path).unlink()
    with pytest.raises(HistoryExpired, match="was deleted meanwhile") as moved:
        asked(world)  # type: ignore[operator]
    assert moved.value.facts["moved"]
    assert any(file.path in str(moved.value) for file in world.files)


@pytest.mark.parametrize("asked", [World.schema, World.keys])
def test_a_file_that_is_cut_off_is_told_as_damage(world: World, asked: object) -> None:
    for file in world.files:
        (world.root / file.path).write_bytes(b"PAR1")
    with pytest.raises(TableCorrupt, match="footer"):
        asked(world)  # type: ignore[operator]
