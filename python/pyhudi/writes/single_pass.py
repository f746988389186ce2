"""Rows written where they are: one pass, no shuffle unless a sort mode asks for one."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.slices.files import BaseFile
from pyhudi.writes.collected import HERE_BYTES
from pyhudi.writes.orders import bulk_work, bulk_work_here, sized_rows
from pyhudi.writes.plan import Plan, Replaced
from pyhudi.writes.stage import Written, run_here
from pyhudi.writes.write_context import Write


@dataclass(frozen=True, slots=True)
class SinglePass:
    """Each task writes its rows to new files; nothing is looked up."""

    write: Write
    targets: tuple[BaseFile, ...] = ()

    def plan(self) -> Plan:
        """A plan without a profile, as nobody has counted the rows."""
        return Plan(self._written)

    def replaced(self, written: Written) -> Replaced | None:
        """Nothing."""
        return None

    def _written(self) -> Written:
        rows = sized_rows(self.write)
        few = self.write.few_rows(rows, HERE_BYTES)
        if few is not None:
            return run_here(bulk_work_here(self.write), few)
        return self.write.stage().run(rows, bulk_work(self.write))
