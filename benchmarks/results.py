"""What a run measured, as values and as a JSON file that the result page is made from."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Measurement:
    """One operation of one engine. ``seconds`` is wall time, ``cpu`` that of the process tree."""

    operation: str
    engine: str
    round: int
    seconds: float
    cpu: float


@dataclass(slots=True)
class Results:
    """One run: its parameters and everything it measured."""

    rows: int
    rounds: int
    appends: int
    append_rows: int
    #: the operations that were measured, where it is not all of them
    only: list[str] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    sizes: dict[str, dict[str, int]] = field(default_factory=dict)
    #: what a reader must know of the machine meanwhile
    note: str = ""

    def engines(self) -> list[str]:
        """Engines in the order in which they were given."""
        return list(dict.fromkeys(m.engine for m in self.measurements))

    def of(self, operation: str, engine: str) -> list[Measurement]:
        """All measurements of an operation, by round."""
        return [m for m in self.measurements if (m.operation, m.engine) == (operation, engine)]

    def save(self, folder: Path) -> None:
        """Write ``<rows>.json``, or ``appends.json`` where nothing else was measured.

        A run of some operations is kept beside that of all: ``<rows>-some.json``.
        """
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(dataclasses.asdict(self), separators=(",", ":"))
        name = f"{self.rows}{'-some' if self.only else ''}" if self.rounds else "appends"
        (folder / f"{name}.json").write_text(text.replace('{"operation"', '\n{"operation"'))


def load(path: Path) -> Results:
    """The run that ``Results.save`` wrote."""
    raw = json.loads(path.read_text())
    raw["measurements"] = [Measurement(**m) for m in raw["measurements"]]
    return Results(**raw)
