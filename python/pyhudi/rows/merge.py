"""The work on one file group: append rows to a new or copied file, or merge them into the old one.

A merge takes the old file one unit at a time. It replaces the rows that lose, drops deleted rows
and keeps the rest; keys that the old file does not have follow at the end.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.base_file import BaseFileWriter, TableFiles
from pyhudi.rows.change_log_writer import ChangeLogWriter, change_log_of
from pyhudi.rows.filled import laid_over
from pyhudi.rows.footer import Footer, reusable_filter
from pyhudi.rows.incoming import Inbox, IncomingRows
from pyhudi.rows.merge_rules import Positions, as_mask, incoming_wins, ordering_roots
from pyhudi.rows.meta_columns import TEXT
from pyhudi.rows.old_file import OldFile
from pyhudi.rows.rows import Sequencer, new_rows, overlaid, single, without_deletes
from pyhudi.rows.spec import DELETE, KEY_COLUMN, GroupPlan


class Append:
    """Writes rows as they come: to a new file, or after a copy of the old one."""

    def __init__(
        self, files: TableFiles, plan: GroupPlan, schema: pa.Schema, sequencer: Sequencer
    ) -> None:
        self._files, self._sequencer = files, sequencer
        self._log = change_log_of(files, plan, schema)
        if plan.base_file is None:
            self._footer = Footer(files.spec.bloom)
            self._writer = BaseFileWriter(files, plan, schema, self._footer)
            return
        old = OldFile(files, plan.base_file, schema, plan.names)
        self._footer = Footer(files.spec.bloom)
        self._writer = BaseFileWriter(files, plan, schema, self._footer, old.coded)
        for unit in old.units():
            self._footer.copied(single(unit.column(KEY_COLUMN)))
            self._writer.write(unit)
        old.close()

    def add(self, incoming: pa.Table) -> None:
        """Write rows; rows marked as deleted are skipped."""
        write_new(self._files, self._writer, self._footer, self._sequencer, incoming, self._log)

    def finish(self) -> dict[str, object]:
        """Close the file; returns its row of ``STAT_SCHEMA``."""
        return self._writer.close() | (self._log.close() if self._log else {})


class Merge:
    """Collects all rows, then merges them by key."""

    def __init__(
        self, files: TableFiles, plan: GroupPlan, schema: pa.Schema, sequencer: Sequencer
    ) -> None:
        self._files, self._plan, self._schema = files, plan, schema
        self._sequencer = sequencer
        self._old = None
        if plan.base_file is not None:
            self._old = OldFile(files, plan.base_file, schema, plan.names)
        keyed = pa.schema([pa.field(KEY_COLUMN, TEXT), *schema])
        self._inbox = Inbox(files.spec, self._old, keyed)
        self._log = change_log_of(files, plan, schema)
        self._rows = 0

    def add(self, incoming: pa.Table) -> None:
        """Take incoming rows."""
        self._rows += incoming.num_rows
        self._inbox.add(incoming)

    def finish(self) -> dict[str, object]:
        """Merge and write; returns the file's row of ``STAT_SCHEMA``."""
        incoming = self._inbox.settled()
        try:
            return self.write(incoming, self._rows)
        finally:
            incoming.close()

    def write(self, incoming: IncomingRows, rows: int) -> dict[str, object]:
        """``finish`` for incoming rows that the caller has taken and closes, ``rows`` in all."""
        try:
            return self._write(incoming, rows)
        finally:
            if self._old is not None:
                self._old.close()

    def _write(self, incoming: IncomingRows, rows: int) -> dict[str, object]:
        spec, old = self._files.spec, self._old
        if old is None:
            footer = Footer(spec.bloom, rows)
            writer = BaseFileWriter(self._files, self._plan, self._schema, footer)
        else:
            most = old.rows + rows
            entries = old.metadata.metadata or {}
            kept_filter = reusable_filter(spec.bloom, entries, most, self._plan.base_file or "")
            footer = Footer(spec.bloom, most, kept_filter)
            writer = BaseFileWriter(self._files, self._plan, self._schema, footer, old.coded)
            for number, unit in enumerate(old.units()):
                merged = self._merged(writer, number, unit, incoming)
                footer.copied(single(merged.column(KEY_COLUMN)))
                writer.write(merged)
        for rest in incoming.rest():
            write_new(self._files, writer, footer, self._sequencer, rest, self._log)
        return writer.close() | (self._log.close() if self._log else {})

    def _merged(
        self, writer: BaseFileWriter, number: int, unit: pa.Table, incoming: IncomingRows
    ) -> pa.Table:
        """A unit of the old file, merged with the incoming rows of its keys."""
        spec = self._files.spec
        rows = incoming.of_unit(number)
        if not rows.num_rows:
            return unit
        found = pc.index_in(unit.column(KEY_COLUMN), value_set=single(rows.column(KEY_COLUMN)))
        hit = as_mask(pc.is_valid(found))
        at = np.flatnonzero(hit)
        picks = single(found).drop_null().to_numpy().astype(np.int64)
        incoming.settle(number, picks)
        if not len(at):
            return unit
        ordering = ordering_roots(spec)
        compared = [*ordering, *([DELETE] if DELETE in rows.column_names else [])]
        wins = incoming_wins(
            spec,
            rows.select(compared).take(pa.array(picks)),
            unit.select(ordering).take(pa.array(at)),
        )
        behind = None
        if wins is not None:
            if spec.fills is not None:
                behind = at[~wins], picks[~wins]
            else:
                writer.counts.outdated += len(picks) - int(wins.sum())
            at, picks = at[wins], picks[wins]
        keep = None
        if DELETE in rows.column_names:
            deletes = as_mask(rows.column(DELETE))[picks]
            if deletes.any():
                keep = np.ones(unit.num_rows, dtype=np.bool_)
                keep[at[deletes]] = False
                writer.counts.deletes += int(deletes.sum())
                if self._log is not None:
                    self._log.deleted(unit.take(pa.array(at[deletes])))
                at, picks = at[~deletes], picks[~deletes]
        at, winners = self._winners(unit, at, rows, picks, behind)
        writer.counts.updates += len(at)
        if not len(at):
            return overlaid(unit, at, unit, keep)
        if self._log is not None:
            self._log.updated(unit.take(pa.array(at)), winners)
        return overlaid(unit, at, new_rows(winners, spec, self._sequencer), keep)

    def _winners(
        self,
        unit: pa.Table,
        at: Positions,
        rows: pa.Table,
        picks: Positions,
        behind: tuple[Positions, Positions] | None,
    ) -> tuple[Positions, pa.Table]:
        """(the places of the unit whose rows change, their new rows).

        Incoming ``rows`` at ``picks`` win against those ``at`` places, and lose at the places
        ``behind``: there the old row wins, and changes if it lacks values that the new one has.
        """
        values = rows.drop_columns([DELETE]) if DELETE in rows.column_names else rows
        winners, filled = values.take(pa.array(picks)), self._files.spec.fills
        if filled is None:
            return at, winners
        old = unit.select(values.column_names)
        winners, _ = laid_over(winners, old.take(pa.array(at)), filled)
        if behind is None:
            return at, winners
        places, losing = behind
        if DELETE in rows.column_names:
            alive = ~as_mask(rows.column(DELETE))[losing]
            places, losing = places[alive], losing[alive]
        kept, changed = laid_over(old.take(pa.array(places)), values.take(pa.array(losing)), filled)
        more = kept.filter(pa.array(changed)).cast(winners.schema)
        return np.append(at, places[changed]), pa.concat_tables([winners, more])


def write_new(
    files: TableFiles,
    writer: BaseFileWriter,
    footer: Footer,
    sequencer: Sequencer,
    incoming: pa.Table,
    log: ChangeLogWriter | None = None,
) -> None:
    """Write incoming rows whose keys the file does not have; deletes are skipped."""
    rows = without_deletes(incoming)
    if not rows.num_rows:
        return
    for chunk in rows.column(KEY_COLUMN).chunks:
        footer.added(chunk)
    writer.counts.inserts += rows.num_rows
    if log is not None:
        log.inserted(rows)
    writer.write(new_rows(rows, files.spec, sequencer))
