"""The log beside a base file: the rows and deletes that one write adds to a file group.

Layout 2: each row has its position in the base file, so that readers mask rows and compare no
keys; rows whose keys the base file does not have are in blocks of their own, since a block has
positions for all its rows or for none (spec/log_files.md L3). Layout 1 has no positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UnsupportedTable, WriteFailed
from pyhudi.format.avro_writing import framed_columns
from pyhudi.format.delete_block import delete_content, inexact
from pyhudi.format.log_blocks import BlockType, HeaderKey, framed_content
from pyhudi.rows.base_file import Counts, TableFiles
from pyhudi.rows.filled import lacks_values
from pyhudi.rows.hashing import Hashes, key_hashes
from pyhudi.rows.incoming import Inbox, IncomingRows
from pyhudi.rows.late_rows import LateRows
from pyhudi.rows.log_spec import LoggedSlices
from pyhudi.rows.log_stream import BLOCK_BYTES, LogStream
from pyhudi.rows.merge import Merge
from pyhudi.rows.merge_rules import (
    Positions,
    as_mask,
    forced_deletes,
    ordering_roots,
    ordering_values,
)
from pyhudi.rows.meta_columns import TEXT, constant
from pyhudi.rows.old_file import OldFile
from pyhudi.rows.ordering import Mask
from pyhudi.rows.outdated_rows import OutdatedRows
from pyhudi.rows.rows import Sequencer, joined, single, without_deletes, without_nulls
from pyhudi.rows.spec import (
    BY_POSITION,
    COMMIT_TIME_COLUMN,
    DELETE,
    FILE_NAME_COLUMN,
    KEY_COLUMN,
    PARTITION_COLUMN,
    REWRITE,
    SEQNO_COLUMN,
    SOFT_DELETE,
    GroupPlan,
)
from pyhudi.rows.stored_types import required_names


@dataclass(frozen=True, slots=True)
class _Match:
    """The rows of one unit of the base file whose keys come: their places in the file, the
    ``picks`` of incoming rows of that unit, the hashes of the keys, and which incoming rows win
    against them (None: all)."""

    unit: int
    places: Positions
    picks: Positions
    hashes: Hashes
    wins: Mask | None


class LogAppend:
    """Collects the rows of one group, then writes them to one log file.

    The keys of the base file are read in layout 1 too: a lookup may take a new key for one with the
    same hash, and readers that merge by key find one row of each. A key that the base file has more
    than once gets what the plan says for ``copies``.
    """

    def __init__(
        self, files: TableFiles, plan: GroupPlan, schema: pa.Schema, sequencer: Sequencer
    ) -> None:
        self._files, self._plan, self._schema = files, plan, schema
        self._sequencer, self._rows = sequencer, 0
        self._old = None
        if plan.base_file is not None:
            self._old = OldFile(files, plan.base_file, schema, plan.names)
        keyed = pa.schema([pa.field(KEY_COLUMN, TEXT), *schema])
        self._inbox = Inbox(files.spec, self._old, keyed)
        self._late: LateRows | None = None
        self._outdated = OutdatedRows.of(files.spec, self._old)
        self._changed: str | None = None

    def look_at(self, deletes: LoggedSlices) -> None:
        """Its rows may come after ``deletes``: rows that come too late are refused."""
        of = deletes.slices.get(self._plan.ordinal)
        if of is not None:
            planned = deletes.planned.get(self._plan.ordinal)
            self._late = LateRows(self._files, deletes.order, of, planned)
            self._outdated = None

    def note_changed(self, incoming: pa.Table, changed: Mask) -> None:
        """Which ``incoming`` rows of a statement take the place of a row of the table, also of one
        that only logs have."""
        if self._changed is None and changed.any():
            self._changed = self._lacking_key(_only(incoming, changed))

    def add(self, incoming: pa.Table) -> None:
        """Take incoming rows."""
        self._rows += incoming.num_rows
        if self._outdated is not None:
            self._outdated.note(incoming)
        self._inbox.add(incoming)

    def finish(self) -> dict[str, object]:
        """Write the log, or a new base file; returns its row of ``STAT_SCHEMA``."""
        incoming = self._inbox.settled()
        try:
            found = [] if self._old is None else list(self._place(self._old, incoming))
            copied = None if self._old is None else _copied(self._old, found)
            lacking = self._lacking(incoming, found)
            if (copied or lacking) is not None and self._plan.copies == REWRITE:
                plan = replace(self._plan, log_version=None)
                merge = Merge(self._files, plan, self._schema, self._sequencer)
                return merge.write(incoming, self._rows)
            if lacking is not None:
                raise self._would_fill(lacking)
            if copied is not None and self._plan.copies != BY_POSITION:
                raise self._refused(copied)
            if copied is not None:
                # A row may lose against one copy of its key, and win against the other.
                found = [replace(match, wins=None) for match in found]
            return self._logged(incoming, found) | {"copies": int(copied is not None)}
        finally:
            incoming.close()
            if self._old is not None:
                self._old.close()

    def _place(self, old: OldFile, incoming: IncomingRows) -> Iterator[_Match]:
        """The places of the rows whose keys the base file has, in its order."""
        start = 0
        beside = [] if self._outdated is None else self._outdated.columns()
        for number, unit in enumerate(old.keyed_units(beside)):
            keys, rows = single(unit.column(KEY_COLUMN)), incoming.of_unit(number)
            if rows.num_rows:
                found = pc.index_in(keys, value_set=single(rows.column(KEY_COLUMN)))
                at = np.flatnonzero(as_mask(pc.is_valid(found)))
                picks = found.drop_null().to_numpy().astype(np.int64)
                wins = None
                if beside and self._outdated is not None and len(at):
                    mine, theirs = rows.take(pa.array(picks)), unit.take(pa.array(at))
                    wins = self._outdated.winning(mine, theirs)
                hashes = key_hashes(keys.take(pa.array(at)))
                yield _Match(number, at + start, picks, hashes, wins)
            start += len(keys)

    def _lacking(self, incoming: IncomingRows, found: Sequence[_Match]) -> str | None:
        """The key of a row whose values count, all, but readers of a log would take some of them
        from the row below (spec/merging.md R6); None if there is none."""
        if self._changed is not None:
            return self._changed
        matches = (incoming.of_unit(each.unit).take(pa.array(each.picks)) for each in found)
        return next(filter(None, map(self._lacking_key, matches)), None)

    def _lacking_key(self, rows: pa.Table) -> str | None:
        """The key of one of the ``rows``, of which a reader of logs would not take all values."""
        spec = self._files.spec
        if spec.filled is None or not spec.exact:
            return None
        rows = without_deletes(rows)
        lacking = _only(rows, lacks_values(rows, spec.filled))
        return str(lacking.column(KEY_COLUMN)[0].as_py()) if lacking.num_rows else None

    def _would_fill(self, key: str) -> UnsupportedTable:
        path = self._plan.base_file
        return UnsupportedTable(
            f"The row with the key {key!r} has no value in a column, and readers of another log of "
            f"the file group {self._plan.file_id} would show the old one. The group has logs or is "
            "to be compacted, so it cannot be written anew. Nothing was written. Compact the table "
            "first (CALL pyhudi.system.run_compaction, or pyhudi.compact), then run it again.",
            feature="logs of rows that lose values in a table of partial updates",
            path=path,
            copied=True,
        )

    def _logged(self, incoming: IncomingRows, found: Sequence[_Match]) -> dict[str, object]:
        log = LogFileWriter(self._files, self._plan, self._schema, self._sequencer)
        for match in found:
            rows = incoming.of_unit(match.unit)
            incoming.settle(match.unit, match.picks)
            picks, places = match.picks, match.places
            if match.wins is not None:
                log.counts.outdated += len(picks) - int(match.wins.sum())
                picks, places = picks[match.wins], places[match.wins]
            rows = rows.take(pa.array(picks))
            if self._late is not None:
                self._check_in_time(self._late, log, rows, places)
            log.add(rows, places if self._files.spec.layout > 1 else None)
        for rest in incoming.rest():
            self._check_known(rest)
            if self._late is not None:
                self._check_in_time(self._late, log, rest, None)
            log.add(rest, None)
        return log.close()

    def _check_in_time(
        self, late: LateRows, log: LogFileWriter, rows: pa.Table, places: Positions | None
    ) -> None:
        """``WriteFailed`` for a row that comes too late for the logs (``late_rows.py``).

        A delete in a delete block does not take the place of one that always wins. The driver then
        compacts the slice (``writes/retries.py``).
        """
        found = late.among(rows, places)
        if DELETE in rows.column_names and found.any():
            held = as_mask(rows.column(DELETE)) & found
            found[np.flatnonzero(held)] = log.marked(_only(rows, held))
        if not found.any():
            return
        first, path = _only(rows, found).slice(0, 1), self._plan.base_file
        where = f"beside '{path}'" if path else f"of the file group {self._plan.file_id}"
        why = (
            "its new row has a smaller ordering value than the deleted one: beside these logs the "
            "deleted row would come back"
        )
        filled = self._files.spec.filled
        if filled is not None and lacks_values(first, filled).any():
            why = (
                "its new row has no value in a column: beside these logs it would have the value "
                "of the deleted row"
            )
        raise WriteFailed(
            f"The key {first.column(KEY_COLUMN)[0].as_py()!r} was deleted in a log {where}, and "
            f"{why}. Nothing was committed. Compact the table first (CALL "
            "pyhudi.system.run_compaction, or pyhudi.compact), then run it again.",
            path=path,
            late=True,
        )

    def _check_known(self, rest: pa.Table) -> None:
        """``WriteFailed`` for a new key under an index whose lookup does not see logs.

        The driver then looks keys up in the files themselves (``writes/retries.py``).
        """
        new = without_deletes(rest)
        if self._old is None or not self._files.spec.keys_known or not new.num_rows:
            return
        key, path = new.column(KEY_COLUMN)[0].as_py(), self._plan.base_file
        raise WriteFailed(
            f"The key {key!r} was taken for one of '{path}', which does not have it. Nothing was "
            "committed. If only a log has the key, compact the table, then run it again.",
            path=path,
            misplaced=True,
        )

    def _refused(self, key: str) -> UnsupportedTable:
        path = self._plan.base_file
        return UnsupportedTable(
            f"The base file '{path}' has the key {key!r} more than once. Readers that merge a log "
            "by key would change one of the rows and keep the others, and the file has logs or is "
            "to be compacted, so it cannot be written anew. Nothing was written. Compact the table "
            "first (CALL pyhudi.system.run_compaction, or pyhudi.compact), then run it again; a "
            "writer without coordination needs another hoodie.write.concurrency.mode for it, too.",
            feature="logs of a key that a base file has more than once",
            path=path,
            copied=True,
        )


def _copied(old: OldFile, found: Sequence[_Match]) -> str | None:
    """One of the keys that were found more than once in the base file; None if there is none."""
    hashes = np.sort(np.concatenate([np.zeros(0, np.uint64), *(each.hashes for each in found)]))
    suspects = hashes[1:][hashes[1:] == hashes[:-1]]
    if not len(suspects):
        return None
    # Two keys may have one hash.
    seen: set[str] = set()
    for keys in old.unit_keys():
        for key in keys.filter(pa.array(np.isin(key_hashes(keys), suspects))).to_pylist():
            if key in seen:
                return str(key)
            seen.add(key)
    return None


_NOWHERE: Final = np.zeros(0, np.int64)


class LogFileWriter:
    """Writes the blocks of one log file."""

    def __init__(
        self, files: TableFiles, plan: GroupPlan, schema: pa.Schema, sequencer: Sequencer
    ) -> None:
        self._files, self._plan, self._schema = files, plan, schema
        self._sequencer, self._required = sequencer, required_names(files.spec.schema)
        self._stream = LogStream(files, plan)
        self.path = self._stream.path
        self.counts = Counts()
        self._held: list[pa.Table] = []
        self._places: list[Positions] | None = []
        self._deletes: dict[bool, list[tuple[pa.Table, Positions]]] = {}

    def add(self, rows: pa.Table, places: Positions | None) -> None:
        """Rows with one row a key, and their ascending places in the base file if they have any."""
        if not rows.num_rows:
            return
        written = rows.num_rows
        if DELETE in rows.column_names:
            deleted = as_mask(rows.column(DELETE))
            self.counts.deletes += int(deleted.sum())
            if self._files.spec.by_event_time:
                self.counts.forced += int(forced_deletes(self._files.spec, rows).sum())
            written -= int(deleted.sum())
            rows = rows.drop_columns([DELETE])
            if deleted.any():
                rows, places = self._without_deletes(rows, places, deleted)
        # In layout 1 no row has a place: the group has rows, so these more likely replace some.
        if places is None and self._files.spec.layout > 1:
            self.counts.inserts += written
        else:
            self.counts.updates += written
        self._hold(rows, places)

    def _hold(self, rows: pa.Table, places: Positions | None) -> None:
        """Rows of a data block."""
        if not rows.num_rows:
            return
        if (places is None) != (self._places is None):
            self._flush()
            self._places = None if places is None else []
        self._held.append(rows)
        if self._places is not None and places is not None:
            self._places.append(places)
        if sum(each.nbytes for each in self._held) >= BLOCK_BYTES:
            self._flush()

    def close(self) -> dict[str, object]:
        """Finish the log; returns its row of ``STAT_SCHEMA``."""
        self._flush()
        for placed, held in self._deletes.items():
            self._flush_deletes(held, placed)
        spec = self._files.spec
        previous = self._plan.base_instant if spec.layout == 1 else spec.instant
        return self._stream.close(self.counts, previous)

    def _without_deletes(
        self, rows: pa.Table, places: Positions | None, deleted: Mask
    ) -> tuple[pa.Table, Positions | None]:
        """The rows of a data block; the ``deleted`` others go to a block of deletes.

        A delete whose ordering values that block would change stays, as a row that is marked. It
        keeps its place among the others: positions ascend within a block.
        """
        marked = np.zeros(len(deleted), np.bool_)
        marked[np.flatnonzero(deleted)] = self.marked(_only(rows, deleted))
        if marked.any():
            at = rows.column_names.index(SOFT_DELETE)
            mark = pc.if_else(pa.array(marked), True, single(rows.column(at)))
            rows = rows.set_column(at, rows.schema.field(at), mark)
            rows = without_nulls(rows, self._required)
        gone = deleted & ~marked
        if gone.any():
            held = self._deletes.setdefault(places is not None, [])
            held.append((_only(rows, gone), _NOWHERE if places is None else places[gone]))
        return _only(rows, ~gone), None if places is None else places[~gone]

    def marked(self, deletes: pa.Table) -> Mask:
        """Which of these deletes stay rows: a delete block would change their ordering values.

        A row holds no null in a column that is NOT NULL, so one that lacks such a value does not.
        """
        found = np.zeros(deletes.num_rows, np.bool_)
        wanted = self._ordering()
        if wanted and SOFT_DELETE in self._schema.names:
            order = [single(ordering_values(deletes, name)) for name in wanted]
            found[inexact(order)] = True
            for root in self._required.intersection(ordering_roots(self._files.spec)):
                found &= as_mask(deletes.column(root).is_valid())
        return found

    def _ordering(self) -> list[str]:
        """The columns whose values a delete has.

        By commit time it has none: Apache Hudi 1.2.0 fails to read several values there.
        """
        spec = self._files.spec
        decide = spec.by_event_time and not spec.always_delete
        return list(spec.ordering_columns) if decide else []

    def _flush(self) -> None:
        if not self._held:
            return
        rows, spec = pa.concat_tables(self._held), self._files.spec
        count = rows.num_rows
        columns = {
            COMMIT_TIME_COLUMN: constant(spec.instant, count).cast(TEXT),
            SEQNO_COLUMN: self._sequencer.take(count),
            KEY_COLUMN: single(rows.column(KEY_COLUMN)),
            PARTITION_COLUMN: constant(self._plan.partition_path, count).cast(TEXT),
            FILE_NAME_COLUMN: constant(self._plan.file_id, count).cast(TEXT),
            **{name: single(rows.column(name)) for name in self._schema.names},
        }
        content = framed_content(framed_columns(columns, spec.avro_schema), count)
        places = None if self._places is None else np.concatenate(self._places)
        self._write(BlockType.AVRO_DATA, content, places)
        self._held = []
        self._places = None if self._places is None else []

    def _flush_deletes(self, held: list[tuple[pa.Table, Positions]], placed: bool) -> None:
        rows = joined([table for table, _ in held])
        order = [single(ordering_values(rows, name)) for name in self._ordering()]
        keys = single(rows.column(KEY_COLUMN))
        content = delete_content(keys, self._plan.partition_path, order)
        places = np.concatenate([at for _, at in held]) if placed else None
        self._write(BlockType.DELETE, content, places)

    def _write(self, kind: BlockType, content: bytes, places: Positions | None) -> None:
        self._stream.write(kind, {HeaderKey.SCHEMA: self._files.spec.avro_schema}, content, places)


def _only(rows: pa.Table, wanted: Mask) -> pa.Table:
    return rows.filter(pa.array(wanted))
