"""The golden tables: names, where to unzip them, the rows that they must give."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "golden"
WRITERS = {"h0150": "0.15.0", "h102": "1.0.2", "h120": "1.2.0"}
_NAME = re.compile(r"(h\d+)_v(\d)-([a-z0-9_]+?)(?:\.(midfail|rolledback))?")


@dataclass(frozen=True)
class GoldenTable:
    """One zip: ``name`` is its file name without the ending."""

    name: str
    writer: str
    version: int
    table: str
    moment: str | None

    @property
    def merge_on_read(self) -> bool:
        return self.table.startswith(("mor_", "sql_mor"))

    def unzip(self, folder: Path) -> Path:
        """The table's root below ``folder``, freshly unzipped unless it is there."""
        root = folder / self.name
        if not root.exists():
            with zipfile.ZipFile(FOLDER / f"{self.name}.zip") as archive:
                archive.extractall(root)
        return root

    def files(self) -> dict[str, bytes]:
        """Every file of the table by its path below the root, without unzipping to disk."""
        with zipfile.ZipFile(FOLDER / f"{self.name}.zip") as archive:
            return {
                entry.filename: archive.read(entry)
                for entry in archive.infolist()
                if not entry.is_dir() and not entry.filename.endswith(".crc")
            }

    def expected(self) -> list[dict[str, Any]] | None:
        """The rows, meta columns included; ``None`` for copies from inside a failing write."""
        path = FOLDER / f"{self.name}.expected.json"
        if not path.exists():
            return None
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return rows


def _parse(name: str) -> GoldenTable:
    found = _NAME.fullmatch(name)
    assert found is not None, f"{name} is no golden table's name"
    return GoldenTable(name, WRITERS[found[1]], int(found[2]), found[3], found[4])


ALL = [_parse(path.name.removesuffix(".zip")) for path in sorted(FOLDER.glob("*.zip"))]
BY_NAME = {table.name: table for table in ALL}
COPY_ON_WRITE = [table for table in ALL if not table.merge_on_read]
