"""ARCHITECTURE.md's guard table, each row with what takes its guard away."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.mutants.changes import CHANGES
from tests.mutants.files import FILES
from tests.mutants.locking import LOCKING
from tests.mutants.mutant import Guard, Mutant
from tests.mutants.racing import RACING
from tests.mutants.services import SERVICES
from tests.mutants.shim import SHIM
from tests.mutants.streams import STREAMS
from tests.mutants.tables import TABLES

GUARDS: Final[tuple[Guard, ...]] = tuple(
    replace(guard, mutants=(*guard.mutants, *SHIM.get(guard.row, ())))
    for guard in (*RACING, *LOCKING, *FILES, *TABLES, *SERVICES, *CHANGES, *STREAMS)
)
MUTANTS: Final[tuple[Mutant, ...]] = tuple(mutant for guard in GUARDS for mutant in guard.mutants)
