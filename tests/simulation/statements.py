"""UPDATE, DELETE and MERGE: rows that are computed from a state that the planner has forgotten.

The state is pinned when the statement is described. Its scan and its write ask for it by that pin,
which the planner's own code finds again (``reads/pins.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pyhudi.application.runtime import Runtime
from pyhudi.errors import HistoryExpired
from pyhudi.reads.pins import Pinned, PinnedQueries
from pyhudi.reads.scan import Query, open_query
from pyhudi.writes.own_reads import OwnReads
from tests.simulation.programs import Evaluated, Machine, Rows, Upsert, rows_of

#: of another kind, so that it has a pin of its own
OTHER_QUERY: Final = {"hoodie.datasource.query.type": "read_optimized"}


@dataclass(frozen=True, slots=True)
class Update(Upsert):
    """Change ``keys`` to values that depend on those that were read: v = v + 1.

    ``restarted``: the planner that scans is another one than described, and the one that writes
    another again. Else other queries push the pin out, and the statement holds it.
    """

    restarted: bool = True

    def _evaluated(self, machine: Machine) -> Evaluated:
        nothing = cast("Any", None)  # no Spark is asked, and no lock
        runtime = Runtime(machine.clock, lambda _: machine.storage, nothing, nothing, nothing)
        root = machine.storage.root
        pins = PinnedQueries(runtime, limit=1)
        query = open_query(runtime, root, {}, {})
        asked = Pinned(pins.pin(query), root, {}, {}, query.instant)
        pins.hold(asked)
        pins = self._forgotten(pins, root)
        rows = pins.ask(asked, lambda found: self._scanned(machine, found))
        state = self._forgotten(pins, root).state(asked)
        reads = OwnReads(state.timeline if state is not None else None, 0)
        return Evaluated(rows, reads.state)

    def _forgotten(self, pins: PinnedQueries, root: str) -> PinnedQueries:
        if self.restarted:
            return PinnedQueries(pins.runtime)
        pins.pin(open_query(pins.runtime, root, OTHER_QUERY, {}))
        return pins

    def _scanned(self, machine: Machine, query: Query) -> Rows:
        try:
            rows: Mapping[str, list[list[str]]] = rows_of(
                machine.storage, query.view().latest(query.as_of)
            )
        except FileNotFoundError as gone:
            raise HistoryExpired(f"{gone} has been cleaned.", asked=None, earliest=None) from gone
        return {key: values[0] for key, values in rows.items()}
