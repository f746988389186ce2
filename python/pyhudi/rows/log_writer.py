"""The log beside a base file: the rows and deletes that one write adds to a file group.

Layout 2: each row has its position in the base file, so that readers mask rows and compare no
keys; rows whose keys the base file does not have are in blocks of their own, since a block has
positions for all its rows or for none (spec/log_files.md L3). Layout 1 has no positions.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import WriteFailed
from pyhudi.format.avro_writing import framed_columns
from pyhudi.format.delete_block import delete_content, inexact
from pyhudi.format.log_blocks import BlockType, HeaderKey, framed_content
from pyhudi.rows.base_file import Counts, TableFiles
from pyhudi.rows.incoming import Inbox, IncomingRows
from pyhudi.rows.log_stream import BLOCK_BYTES, LogStream
from pyhudi.rows.merge_rules import Mask, Positions, as_mask, ordering_values
from pyhudi.rows.meta_columns import TEXT, constant
from pyhudi.rows.old_file import OldFile
from pyhudi.rows.rows import Sequencer, joined, single, without_deletes
from pyhudi.rows.spec import (
    COMMIT_TIME_COLUMN,
    DELETE,
    FILE_NAME_COLUMN,
    KEY_COLUMN,
    PARTITION_COLUMN,
    SEQNO_COLUMN,
    SOFT_DELETE,
    GroupPlan,
)


class LogAppend:
    """Collects the rows of one group, then writes them to one log file.

    The keys of the base file are read also in layout 1, if each row's key must be among them: a
    lookup may take a new key for one with the same hash.
    """

    def __init__(
        self, files: TableFiles, plan: GroupPlan, schema: pa.Schema, sequencer: Sequencer
    ) -> None:
        self._files, self._plan, self._schema = files, plan, schema
        self._old = None
        if plan.base_file is not None and (files.spec.layout > 1 or files.spec.keys_known):
            self._old = OldFile(files, plan.base_file, schema, plan.names)
        keyed = pa.schema([pa.field(KEY_COLUMN, TEXT), *schema])
        self._inbox = Inbox(files.spec, self._old, keyed)
        self._log = LogFileWriter(files, plan, schema, sequencer)

    def add(self, incoming: pa.Table) -> None:
        """Take incoming rows."""
        self._inbox.add(incoming)

    def finish(self) -> dict[str, object]:
        """Write the log; returns its row of ``STAT_SCHEMA``."""
        incoming = self._inbox.settled()
        try:
            if self._old is not None:
                self._place(self._old, incoming)
            for rest in incoming.rest():
                self._check_known(rest)
                self._log.add(rest, None)
            return self._log.close()
        finally:
            incoming.close()
            if self._old is not None:
                self._old.close()

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
            misplaced=key,
        )

    def _place(self, old: OldFile, incoming: IncomingRows) -> None:
        """Write the rows whose keys the base file has, in its order."""
        start = 0
        for number, keys in enumerate(old.unit_keys()):
            rows = incoming.of_unit(number)
            if rows.num_rows:
                found = pc.index_in(keys, value_set=single(rows.column(KEY_COLUMN)))
                at = np.flatnonzero(as_mask(pc.is_valid(found)))
                picks = found.drop_null().to_numpy().astype(np.int64)
                incoming.settle(number, picks)
                placed = at + start if self._files.spec.layout > 1 else None
                self._log.add(rows.take(pa.array(picks)), placed)
            start += len(keys)


class LogFileWriter:
    """Writes the blocks of one log file."""

    def __init__(
        self, files: TableFiles, plan: GroupPlan, schema: pa.Schema, sequencer: Sequencer
    ) -> None:
        self._files, self._plan, self._schema = files, plan, schema
        self._sequencer = sequencer
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
        if DELETE in rows.column_names:
            deleted = as_mask(rows.column(DELETE))
            if deleted.any():
                self._delete(_only(rows, deleted), None if places is None else places[deleted])
                rows, places = _only(rows, ~deleted), None if places is None else places[~deleted]
            rows = rows.drop_columns([DELETE])
        # In layout 1 no row has a place: the group has rows, so these more likely replace some.
        if places is None and self._files.spec.layout > 1:
            self.counts.inserts += rows.num_rows
        else:
            self.counts.updates += rows.num_rows
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

    def _delete(self, rows: pa.Table, places: Positions | None) -> None:
        """Deletes: in a delete block, or as rows that are marked if it would change their order."""
        self.counts.deletes += rows.num_rows
        wanted = self._ordering()
        if wanted and SOFT_DELETE in self._schema.names:
            marked = inexact([single(ordering_values(rows, name)) for name in wanted])
            if marked.any():
                mark = pa.array(np.ones(int(marked.sum()), np.bool_))
                held = _only(rows, marked).drop_columns([DELETE])
                at = held.column_names.index(SOFT_DELETE)
                held = held.set_column(at, held.schema.field(at), mark)
                self._hold(held, None if places is None else places[marked])
                rows, places = _only(rows, ~marked), None if places is None else places[~marked]
                if not rows.num_rows:
                    return
        held = self._deletes.setdefault(places is not None, [])
        held.append((rows, np.zeros(0, np.int64) if places is None else places))

    def _ordering(self) -> list[str]:
        """The columns whose values a delete has."""
        spec = self._files.spec
        return [] if spec.always_delete else list(spec.ordering_columns)

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
