"""Writing one base file: marker, partition metadata, row groups, footer, in this order.

The marker comes first, so the rollback knows every file that may exist. The footer comes last, so a
file without a footer is visibly unfinished. Row groups stay small enough to merge one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pyhudi.errors import InvalidRecord
from pyhudi.format.filenames import BaseFileName, LogFileName, path_in
from pyhudi.format.keys import check_partition_path
from pyhudi.format.markers import Marker, MarkerKind, marker_fault, marker_folder
from pyhudi.format.partition_metadata import FILE_NAME as PARTITION_METADATA
from pyhudi.format.partition_metadata import depth_of
from pyhudi.format.partition_metadata import render as render_partition_metadata
from pyhudi.rows.announce import Announcer, DirectMarkers
from pyhudi.rows.encoding import coded_in_sample, writer_options
from pyhudi.rows.footer import Footer
from pyhudi.rows.meta_columns import CODED_TEXT, TEXT, constant
from pyhudi.rows.spec import (
    COMMIT_TIME_COLUMN,
    FILE_NAME_COLUMN,
    KEY_COLUMN,
    META_COLUMNS,
    PARTITION_COLUMN,
    SEQNO_COLUMN,
    GroupPlan,
    WriteSpec,
)
from pyhudi.rows.task import Task


@dataclass(slots=True)
class Counts:
    """Numbers of rows of one file, by what happened to them; ``writes`` counts all its rows,
    ``forced`` the deletes of a log that win in any case, ``outdated`` the incoming rows that lose
    against a row of the old base file."""

    writes: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    forced: int = 0
    outdated: int = 0


class Unfinished(Protocol):
    """A file that is being written."""

    def abandon(self) -> None:
        """Close the streams of a file that no commit will name."""


class TableFiles:
    """The table's folders, for the files of one task."""

    def __init__(self, spec: WriteSpec, task: Task) -> None:
        self.spec = spec
        self.task = task
        self.fs = spec.fs.open()
        direct = DirectMarkers(self._put_marker)
        self.markers: Announcer = direct if spec.markers is None else spec.markers.open()
        self.unfinished: dict[str, Unfinished] = {}
        self._known_folders: set[str] = set()
        self._known_partitions: set[str] = set()

    def close(self) -> None:
        """End the task, and delete its unfinished files.

        If a stream is left to the garbage collector, its upload completes at that time, perhaps
        after the rollback. So the stream is closed and its file deleted before the failure is
        reported.
        """
        for path, writer in self.unfinished.items():
            writer.abandon()
            with suppress(OSError):
                self.fs.delete_file(self.absolute(path))
        self.unfinished.clear()
        self.markers.close()

    def absolute(self, path: str) -> str:
        """``path``, relative to the table, in the form that the file system needs."""
        return f"{self.spec.root}/{path}" if path else self.spec.root

    def put(self, path: str, data: bytes) -> None:
        """Write a small file."""
        with self.open_output(path) as stream:
            if data:
                stream.write(data)

    def open_output(self, path: str) -> pa.NativeFile:
        """A stream to a new file; makes its folder if the storage has real folders."""
        folder = path.rpartition("/")[0]
        if self.spec.fs.kind == "local" and folder not in self._known_folders:
            self.fs.create_dir(self.absolute(folder), recursive=True)
            self._known_folders.add(folder)
        return self.fs.open_output_stream(self.absolute(path), compression=None)

    def file_of(self, plan: GroupPlan) -> Marker:
        """The data file that this task writes for a plan, with its kind."""
        check_partition_path(plan.partition_path)
        name, kind = self._name_of(plan)
        path = path_in(plan.partition_path, name)
        marker = Marker(path, kind)
        fault = None if self.spec.markers is None else marker_fault(marker.render())
        if fault is not None:
            raise InvalidRecord(
                f"The partition path {plan.partition_path!a} from the data cannot be stored in a "
                f"list of markers: {fault}. Correct the partition column, or write with "
                "hoodie.write.markers.type=direct.",
                column=PARTITION_COLUMN,
            )
        return marker

    def _name_of(self, plan: GroupPlan) -> tuple[str, MarkerKind]:
        """A file's name (spec/data_files.md D1), and its kind of marker (spec/markers.md M1)."""
        token = self.task.write_token(self.spec.write_nonce)
        instant, version = self.spec.instant, plan.log_version
        if version is None:
            base = BaseFileName(plan.file_id, token, instant)  # type: ignore[arg-type]
            return base.render(), MarkerKind.MERGE if plan.base_file else MarkerKind.CREATE
        if self.spec.layout == 1:
            instant, kind = plan.base_instant or instant, MarkerKind.APPEND
        else:
            kind = MarkerKind.CREATE
        log = LogFileName(plan.file_id, instant, version, token)  # type: ignore[arg-type]
        return log.render(), kind

    def change_log_of(self, plan: GroupPlan) -> Marker:
        """The change log beside that file; its name begins with a dot."""
        token = self.task.write_token(self.spec.write_nonce)
        at = self.spec.instant
        name = LogFileName(plan.file_id, at, 1, token, True)  # type: ignore[arg-type]
        return Marker(path_in(plan.partition_path, name.render()), MarkerKind.CREATE)

    def expect(self, plans: Iterable[GroupPlan]) -> None:
        """Announce the files of these plans in advance and together, if that saves requests."""
        asked = list(plans)
        wanted = [self.file_of(plan) for plan in asked]
        if self.spec.change_log is not None:
            wanted += [self.change_log_of(plan) for plan in asked if plan.base_file is not None]
        self.markers.expect([marker.render() for marker in wanted])

    def _put_marker(self, marker: str) -> None:
        self.put(f"{marker_folder(self.spec.instant)}/{marker}", b"")

    def ensure_partition(self, partition_path: str) -> None:
        """Write the partition's metadata file if there is none; without it Spark sees no rows."""
        if partition_path in self._known_partitions:
            return
        self._known_partitions.add(partition_path)
        prefix = f"{partition_path}/" if partition_path else ""
        path = prefix + PARTITION_METADATA
        if self.fs.get_file_info(self.absolute(path)).type != fs.FileType.NotFound:
            return
        data = render_partition_metadata(self.spec.instant, depth_of(partition_path))
        if self.spec.fs.kind == "s3":
            self.put(path, data)
            return
        # Another task may do the same: because of the rename readers always see a whole file.
        own = f"{path}_{self.task.write_token(self.spec.write_nonce)}"
        self.put(own, data)
        self.fs.move(self.absolute(own), self.absolute(path))


class BaseFileWriter:
    """Writes one base file.

    Rows come as tables of commit time, sequence number, record key and the data columns. The writer
    adds the two constant columns and forms row groups.
    """

    def __init__(
        self,
        files: TableFiles,
        plan: GroupPlan,
        schema: pa.Schema,
        footer: Footer,
        coded: frozenset[str] | None = None,
    ) -> None:
        """``schema`` is the stored data schema; ``coded`` are the columns with dictionaries,
        ``None``: the first rows decide."""
        self._marker = files.file_of(plan)
        self.path, self.kind = self._marker.data_path, self._marker.kind
        self.name = self.path.rpartition("/")[2]
        self.counts = Counts()
        self._files, self._spec, self._plan = files, files.spec, plan
        self._schema, self._footer, self._coded = schema, footer, coded
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._group_rows = 0
        self._stream: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        files.markers.announce(self._marker.render())
        files.ensure_partition(plan.partition_path)

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return 0 if self._stream is None else int(self._stream.tell())

    @property
    def coded(self) -> frozenset[str] | None:
        """The columns with dictionaries, once that is decided."""
        return self._coded

    def write(self, rows: pa.Table) -> None:
        """Add rows; pending rows that make whole row groups go to the file."""
        if not rows.num_rows:
            return
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        self._group_rows = self._group_rows or self._rows_of_a_group(rows)
        size = self._group_rows
        # About the right size is enough: the remaining rows would be copied into the next group.
        while self._pending_rows * 4 >= size * 3:
            self._flush(self._pending_rows if self._pending_rows * 4 <= size * 5 else size)

    def flush(self) -> None:
        """Write the pending rows, even if they are less than a row group."""
        if self._pending_rows:
            self._flush(self._pending_rows)

    def abandon(self) -> None:
        """Close the streams of a file that no commit will name."""
        for end in (self._writer, self._stream):
            if end is not None:
                with suppress(OSError, ValueError, pa.ArrowException):
                    end.close()

    def close(self) -> dict[str, object]:
        """Finish the file; returns its row of ``STAT_SCHEMA``."""
        if self._pending_rows or self._writer is None:
            self._flush(self._pending_rows)
        writer, stream = self._writer, self._stream
        assert writer is not None
        assert stream is not None
        key_values = self._footer.key_values(self._spec.avro_schema)
        writer.add_key_value_metadata(key_values)
        writer.close()
        size = stream.tell()
        stream.close()
        del self._files.unfinished[self.path]
        counts, plan, keys = self.counts, self._plan, self._footer.key_range
        previous = None if plan.base_file is None else plan.base_file.rpartition("/")[2]
        return {
            "file_id": plan.file_id,
            "path": self.path,
            "partition_path": plan.partition_path,
            "prev_base_file": previous,
            "prev_instant": plan.base_instant,
            "num_writes": counts.writes,
            "num_inserts": counts.inserts,
            "num_updates": counts.updates,
            "num_deletes": counts.deletes,
            "outdated": counts.outdated,
            "file_size_bytes": size,
            "min_key": keys[0] if keys else None,
            "max_key": keys[1] if keys else None,
            "marker": self.kind.value,
        }

    def _rows_of_a_group(self, rows: pa.Table) -> int:
        width = max(1, rows.nbytes // rows.num_rows)
        return rows_per_unit(self._spec, width)

    def _flush(self, rows: int) -> None:
        group = self._take_pending(rows)
        if self._writer is None:
            group = self._open(group)
        else:
            group = self._in_file_types(group)
        assert self._writer is not None
        if rows:
            self._writer.write_table(group, row_group_size=rows)
        self.counts.writes += rows

    def _take_pending(self, rows: int) -> pa.Table:
        """The first ``rows`` pending rows, with the constant columns, in stored order."""
        if self._pending:
            pending = pa.concat_tables(_alike(self._pending))
        else:
            pending = self._empty()
        left = pending.slice(rows)
        self._pending = [left] if left.num_rows else []
        self._pending_rows = left.num_rows
        group = pending.slice(0, rows)
        constants = {
            PARTITION_COLUMN: constant(self._plan.partition_path, rows),
            FILE_NAME_COLUMN: constant(self.name, rows),
        }
        names = [*META_COLUMNS, *self._schema.names]
        columns = [constants[name] if name in constants else group[name] for name in names]
        return pa.table(columns, names=names)

    def _empty(self) -> pa.Table:
        fields = [(COMMIT_TIME_COLUMN, CODED_TEXT), (SEQNO_COLUMN, TEXT), (KEY_COLUMN, TEXT)]
        return pa.schema([*map(pa.field, *zip(*fields, strict=True)), *self._schema]).empty_table()

    def _open(self, first: pa.Table) -> pa.Table:
        """Start the file with encodings that suit its first rows; returns these in its types."""
        if self._coded is None:
            names = self._schema.names
            columns = [first[name] for name in names]
            self._coded = coded_in_sample(names, columns) if first.num_rows else frozenset()
        fields = [pa.field(name, CODED_TEXT) for name in META_COLUMNS]
        fields[META_COLUMNS.index(SEQNO_COLUMN)] = pa.field(SEQNO_COLUMN, TEXT)
        fields[META_COLUMNS.index(KEY_COLUMN)] = pa.field(KEY_COLUMN, TEXT)
        for column in self._schema:
            as_codes = pa.types.is_dictionary(first.schema.field(column.name).type)
            fields.append(pa.field(column.name, CODED_TEXT) if as_codes else column)
        self._in_file = pa.schema(fields)
        self._files.markers.settle(self._marker.render())
        self._stream = self._files.open_output(self.path)
        self._files.unfinished[self.path] = self
        options = writer_options(self._spec, self._coded)
        self._writer = pq.ParquetWriter(self._stream, self._in_file, **options)
        return self._in_file_types(first)

    def _in_file_types(self, group: pa.Table) -> pa.Table:
        columns = []
        for column in self._in_file:
            array = group[column.name]
            if array.type != column.type:
                as_codes = pa.types.is_dictionary(column.type)
                array = array.dictionary_encode() if as_codes else array.cast(column.type)
            columns.append(array)
        # One dictionary per row group: with a second one Parquet would fall back to plain values.
        return pa.table(columns, schema=self._in_file).unify_dictionaries()


def _alike(tables: list[pa.Table]) -> list[pa.Table]:
    """The tables with each column coded in all or in none; merged and new rows may differ."""
    coded = {
        column.name
        for table in tables
        for column in table.schema
        if pa.types.is_dictionary(column.type)
    }
    return [_coded(table, coded) for table in tables]


def _coded(table: pa.Table, names: set[str]) -> pa.Table:
    for at, column in enumerate(table.schema):
        if column.name in names and not pa.types.is_dictionary(column.type):
            table = table.set_column(at, column.name, table.column(at).dictionary_encode())
    return table


def rows_per_unit(spec: WriteSpec, row_bytes: int) -> int:
    """The rows of a row group, or of a merge's unit, if a row takes ``row_bytes`` in memory."""
    return max(1024, min(spec.row_group_rows, spec.row_group_bytes // max(1, row_bytes)))
