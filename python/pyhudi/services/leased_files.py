"""The files that queries and streams with a living lease read, or will read."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.clock import Clock
from pyhudi.services.clean_plan import Hold
from pyhudi.slices.files import BaseFile, LogFile
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table
from pyhudi.timeline.versions import versions_of
from pyhudi.timeline.view import FileSystemView
from pyhudi.transactions.leases import living_leases


def leased_files(table: Table, clock: Clock, timeline: Timeline) -> dict[tuple[str, str], Hold]:
    """What keeps each of these files; what seems to be lost of them stops no clean.

    A query reads the files of its state. A stream also reads every file that was written later.
    """
    found: dict[tuple[str, str], Hold] = {}
    for lease in living_leases(table.storage, clock):
        state = lease.state
        then = state.on(timeline)
        why = f"a query of {lease.who} reads the table as of {state.instant}"
        if lease.follows:
            why = f"a stream of {lease.who} has read the table up to {state.instant}"
            read = {i.time for i in then.commits if i.time <= state.instant}
            first = timeline.first_time or state.instant
            for file in _files(table.view(timeline)):
                if file.instant not in read and file.instant >= first:
                    found[file.partition_path, file.name] = Hold(state.instant, why, leased=True)
        for each in table.view(then).existing_slices(state.instant):
            for held in each.files:
                found[held.partition_path, held.name] = Hold(state.instant, why, leased=True)
    return found


def _files(view: FileSystemView) -> Iterator[BaseFile | LogFile]:
    """Every file of every group."""
    for by_id in versions_of(view).values():
        for slices in by_id.values():
            for each in slices:
                yield from each.files
