"""The blocks of a slice's logs in the order of their merge, decoded as far as they are asked.

Rules: spec/log_files.md L2 to L6. Blocks of instants that do not count are left out, and those that
a command block rolls back. The blocks that a log compaction wrote stand where the last of those
stood that they replace.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import TableCorrupt, UnsupportedTable
from pyhudi.format.avro_columns import AvroColumns
from pyhudi.format.avro_writing import framed_columns
from pyhudi.format.corruption import corrupt
from pyhudi.format.delete_block import Deleted, delete_records, deleted_keys
from pyhudi.format.log_blocks import (
    COUNT_BYTES,
    LENGTH_BYTES,
    BlockType,
    FoundBlock,
    HeaderKey,
    InMemory,
    RandomAccess,
    Raw,
    avro_count,
    avro_frames,
    avro_spans,
    find_blocks,
    framed_content,
)
from pyhudi.format.roaring import positions_in
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.log_ordering import MISFIT, kind_of, ordering_columns, ordering_value
from pyhudi.rows.log_spec import LANDMARK, BlockPlace, CountedInstants, MergeSpec, Positions
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.spec import KEY_COLUMN, SOFT_DELETE, FileNames
from pyhudi.rows.stored_types import converted

RULE = "a data block holds rows of its schema (spec/log_files.md L4)"
OPERATION = "_hoodie_operation"
#: values of ``_hoodie_operation`` that take a row away
_TAKES_AWAY = ["D", "-D", "-U"]
_WITHOUT_ROWS = (BlockType.CDC_DATA, BlockType.CORRUPT)
#: of a block of deletes that stays decoded, which takes ten times as much
KEPT_DELETE_BYTES = 4 << 20
#: the types of blocks that have rows
DATA = (BlockType.AVRO_DATA, BlockType.PARQUET_DATA)


class Latest:
    """Of the parts of logs that are not held in memory, the one that is; they share it."""

    def __init__(self) -> None:
        self._part: LogPart | None = None

    def put(self, part: LogPart) -> None:
        """``part`` is read: forget what another one has read."""
        if self._part is not None and self._part is not part:
            self._part.forget()
        self._part = part


class LogPart:
    """One block with rows or deletes; its content is read when it is asked for.

    If it shares a ``latest`` with other parts, it forgets its content when one of them is asked.
    """

    def __init__(
        self,
        found: FoundBlock,
        source: RandomAccess,
        path: str,
        names: FileNames | None,
        latest: Latest | None = None,
    ) -> None:
        self._found, self._source, self._latest = found, source, latest
        self.path, self._names = path, names
        self._places: dict[str, Positions | None] = {}
        self.forget()

    def forget(self) -> None:
        """Give back the memory of what was read."""
        self._held: Raw | None = None
        self._file: SliceFile | None = None
        self._whole: pa.StructArray | None = None
        self._spans: tuple[Positions, Positions] | None = None
        self._deletes: list[Deleted] | None = None
        self._keys: pa.Array | None = None
        self._ordering: dict[object, tuple[list[pa.Array], pa.BooleanArray]] = {}

    @staticmethod
    def instant_of(block: FoundBlock) -> str:
        """The instant that a block names; empty if it names none."""
        return block.header.get(HeaderKey.INSTANT_TIME, "")

    @property
    def kind(self) -> BlockType:
        """The type of its block."""
        return self._found.block_type

    @property
    def header(self) -> Mapping[int, str]:
        """The header of its block."""
        return self._found.header

    @property
    def _content(self) -> Raw:
        if self._latest is not None:
            self._latest.put(self)
        if self._held is None:
            self._held = self._found.content(self._source)
        return self._held

    @property
    def instant(self) -> str:
        """The instant that wrote it."""
        return self.instant_of(self._found)

    @property
    def block(self) -> tuple[str, int]:
        """Which block it is: the path of its log and where its content begins."""
        return self.path, self._found.at

    @property
    def partial(self) -> bool:
        """Whether its rows have some columns only, and the others stay (spec/merging.md R5)."""
        return self.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"

    @property
    def deletes(self) -> bool:
        """Whether all it holds are deletes."""
        return self._found.block_type is BlockType.DELETE

    @property
    def schema(self) -> str:
        """The Avro schema of its rows, as JSON."""
        return self._found.header.get(HeaderKey.SCHEMA, "")

    @property
    def place(self) -> BlockPlace:
        """Where its content is; without a schema if its rows are not whole."""
        place = BlockPlace(self.path, self._found.at, self._found.length, "")
        if self.kind is not BlockType.AVRO_DATA or self.partial:
            return place
        place = replace(place, schema=sys.intern(self.schema))
        if self._spans is None:
            return place
        return replace(place, landmarks=self._spans[0][::LANDMARK] - LENGTH_BYTES)

    def records(self) -> pa.LargeBinaryArray:
        """Its rows or deletes as another block may hold them, without a change of any value.

        Rows are Avro of ``schema``, each behind its length.
        """
        if self.deletes:
            return pa.array(delete_records(self._content, self.path), pa.large_binary())
        if self.kind is BlockType.AVRO_DATA:
            return avro_frames(self._content, *avro_spans(self._content, self.path))
        rows = self._rows(self.names())
        columns = {field.name: rows.field(at) for at, field in enumerate(rows.type)}
        try:
            content = framed_content(framed_columns(columns, self.schema), len(rows))
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise corrupt(self.path, RULE, f"a row does not fit the schema ({error!r})") from error
        return avro_frames(content, *avro_spans(content, self.path))

    def positions(self, base_instant: str) -> Positions | None:
        """The places of its rows in the base file of that instant; None if it does not say."""
        if base_instant not in self._places:
            self._places[base_instant] = self._positions(base_instant)
        return self._places[base_instant]

    def _positions(self, base_instant: str) -> Positions | None:
        header = self._found.header
        if header.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS) != base_instant:
            return None
        text = header.get(HeaderKey.RECORD_POSITIONS)
        if not text:
            return None
        try:
            found = positions_in(base64.b64decode(text))
        except ValueError as error:
            raise corrupt(self.path, "positions are a Roaring bitmap", str(error)) from error
        return found if len(found) else None

    def keys(self) -> pa.Array:
        """The record keys."""
        if self._keys is None:
            self._keys = self._decoded_keys()
        return self._keys

    def _decoded_keys(self) -> pa.Array:
        if self.deletes:
            return pa.array([each.key for each in self._deleted()], pa.string())
        rows = self._rows([KEY_COLUMN])
        at = rows.type.get_field_index(KEY_COLUMN)
        if at < 0 or rows.field(at).null_count:
            raise corrupt(self.path, RULE, "a row has no key")
        return rows.field(at).cast(pa.string())

    def keys_at(self, at: Positions) -> pa.Array:
        """The record keys of the rows at ``at``, in this order."""
        return self.keys().take(pa.array(at))

    def ordering(self, spec: MergeSpec) -> tuple[list[pa.Array], pa.BooleanArray]:
        """The ordering values, column by column, and for each row whether it wins in any case."""
        asked = spec.ordering_paths, spec.ordering
        known = self._ordering.get(asked)
        if known is None:
            known = self._ordering[asked] = self._decoded_ordering(spec)
        return known

    def _decoded_ordering(self, spec: MergeSpec) -> tuple[list[pa.Array], pa.BooleanArray]:
        if not self.deletes:
            held = self._in_columns(self._rows(self._own_names(spec.ordering)), spec.ordering)
            return ordering_columns(held, spec), pa.array(np.zeros(len(held), np.bool_))
        deletes = self._deleted()
        kinds = [kind_of(spec, path) for path in spec.ordering_paths]
        values: list[list[object]] = [[] for _ in kinds]
        forced = np.zeros(len(deletes), np.bool_)
        for at, each in enumerate(deletes):
            fits = len(each.order) == len(kinds)
            found = [
                ordering_value(kind, *value) for kind, value in zip(kinds, each.order, strict=False)
            ]
            compares = fits and all(value is not MISFIT for value in found)
            forced[at] = not compares or all(value is None for value in found)
            for place, column in enumerate(values):
                column.append(None if forced[at] else found[place])
        columns = [pa.array(each, kind) for each, kind in zip(values, kinds, strict=True)]
        return columns, pa.array(forced)

    def taken_away(self, spec: MergeSpec) -> np.ndarray:
        """For each row whether it is a delete."""
        if self.deletes:
            return np.ones(len(self._deleted()), np.bool_)
        held = self.names()
        marks = {SOFT_DELETE, OPERATION, spec.marker[0] if spec.marker else SOFT_DELETE}
        if not marks & held:
            return np.zeros(self.size, np.bool_)
        rows = self._rows(marks)
        found = np.zeros(len(rows), np.bool_)
        if SOFT_DELETE in held and pa.types.is_boolean(rows.type.field(SOFT_DELETE).type):
            found |= _mask(rows.field(SOFT_DELETE))
        if OPERATION in held:
            found |= _mask(pc.is_in(rows.field(OPERATION).cast(pa.string()), pa.array(_TAKES_AWAY)))
        if spec.marker is not None and spec.marker[0] in held:
            texts = rows.field(spec.marker[0]).cast(pa.string())
            found |= _mask(pc.equal(texts, spec.marker[1]))
        return found

    @property
    def size(self) -> int:
        """How many rows or deletes it holds."""
        if self.deletes:
            return len(self._deleted())
        if self._found.block_type is BlockType.AVRO_DATA:
            head = replace(self._found, length=min(self._found.length, COUNT_BYTES))
            return avro_count(head.content(self._source), self.path)
        return self._opened().rows

    def names(self) -> set[str]:
        """The columns of its rows, as its schema calls them."""
        return set(self._in_schema(lambda schema: schema.names))

    def defaults(self) -> list[str]:
        """The columns of its rows whose default is a value other than null."""
        return self._in_schema(lambda schema: schema.defaults)

    def _in_schema(self, wanted: Callable[[AvroColumns], list[str]]) -> list[str]:
        try:
            return wanted(AvroColumns(self.schema))
        except (ValueError, KeyError, TypeError) as error:
            raise corrupt(self.path, RULE, f"the schema does not parse ({error!r})") from error

    def has(self, name: str) -> bool:
        """Whether its rows have the table's column ``name``."""
        return (self._names or {}).get(name, (name, None))[0] in self.names()

    def images(self, at: Positions, kind: pa.StructType) -> pa.StructArray:
        """The rows at ``at`` in the columns of ``kind``; null in one that they lack."""
        return self._in_columns(self._rows(self._own_names(kind), at), kind)

    def _own_names(self, kind: pa.StructType) -> list[str]:
        """The block's names of the columns of ``kind``."""
        names = self._names or {}
        return [names.get(field.name, (field.name, None))[0] for field in kind]

    def _in_columns(self, rows: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
        try:
            return converted(rows, kind, False, self._names)
        except pa.ArrowException as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise corrupt(self.path, RULE, f"a value does not fit its column: {reason}") from error

    def _rows(self, wanted: Collection[str], at: Positions | None = None) -> pa.StructArray:
        """Its rows, or those at ``at``, in its own columns, at least the ``wanted`` ones it has.

        ``TableCorrupt`` if they do not decode.
        """
        try:
            if self._found.block_type is BlockType.PARQUET_DATA:
                if self._whole is None:
                    self._whole = self._opened().whole()
                rows = self._whole
                return rows if at is None else rows.take(pa.array(at))
            content = self._content
            if self._spans is None:
                self._spans = avro_spans(content, self.path)
            starts, ends = (each if at is None else each[at] for each in self._spans)
            columns = AvroColumns(self.schema)
            # One column at least: without any, the number of rows would be lost.
            held = set(wanted) & set(columns.names) or columns.names[:1]
            found = columns.decode(content, starts, ends, held)
            return pa.StructArray.from_arrays(list(found.values()), list(found))
        except (ValueError, KeyError, TypeError, IndexError, pa.ArrowException) as error:
            raise corrupt(self.path, RULE, f"a block does not decode ({error!r})") from error

    def _opened(self) -> SliceFile:
        if self._file is None:
            try:
                source = pa.BufferReader(self._content)
                self._file = SliceFile(source, Slice(self.path))
            except pa.ArrowException as error:
                reason = f"a block is no Parquet file ({error!r})"
                raise corrupt(self.path, RULE, reason) from error
        return self._file

    def _deleted(self) -> list[Deleted]:
        if self._deletes is None:
            self._deletes = deleted_keys(self._content, self.path)
        return self._deletes


class SliceLogs:
    """The logs of a slice: each is read once, and each block is decoded once for all merges.

    ``read`` gives a log by its path: its bytes, or access to a log that is too large for memory. Of
    such logs one block is in memory at most, the latest that was asked for. ``names`` are the names
    of columns by a block's instant, where they differ from the table's. ``whole`` is ``whole_logs``
    of ``MergeSpec``.
    """

    def __init__(
        self,
        read: Callable[[str], bytes | RandomAccess],
        names: Mapping[str, FileNames],
        whole: bool = False,
    ) -> None:
        self._read, self._names, self._whole, self._latest = read, names, whole, Latest()
        self._parts: dict[str, list[LogPart]] = {}

    def parts(self, paths: Iterable[str], counted: CountedInstants) -> list[LogPart]:
        """The parts of the logs at ``paths`` that count, in the order of the merge.

        ``UnsupportedTable`` for a kind of block that pyhudi cannot merge.
        """
        by_instant: dict[str, list[LogPart]] = {}
        for path in paths:
            for part in self._of(path):
                if part.kind is BlockType.COMMAND:
                    by_instant.pop(part.header.get(HeaderKey.TARGET_INSTANT_TIME, ""), None)
                elif part.kind not in _WITHOUT_ROWS:
                    if not part.header.get(HeaderKey.INSTANT_TIME):
                        raise corrupt(path, "a block names its instant", "a block without one")
                    if part.instant in counted:
                        _check(part)
                        by_instant.setdefault(part.instant, []).append(part)
        return [part for instant in _placed(by_instant) for part in by_instant[instant]]

    def _of(self, path: str) -> list[LogPart]:
        if path not in self._parts:
            data = self._read(path)
            source = InMemory(memoryview(data)) if isinstance(data, bytes) else data
            found = []
            for block in find_blocks(source, path if self._whole else None):
                large = block.block_type is BlockType.DELETE and block.length > KEPT_DELETE_BYTES
                latest = self._latest if large or source is data else None
                names = self._names.get(LogPart.instant_of(block))
                found.append(LogPart(block, source, path, names, latest))
            self._parts[path] = found
        return self._parts[path]


def parts_of(
    spec: MergeSpec,
    logs: Sequence[tuple[str, bytes | RandomAccess]],
    names: Mapping[str, FileNames],
) -> list[LogPart]:
    """The parts of a slice's logs, each a path and its bytes, in the order of the merge.

    ``UnsupportedTable`` for a kind of block that pyhudi cannot merge.
    """
    held = SliceLogs(dict(logs).__getitem__, names, spec.whole_logs)
    return held.parts(dict(logs), spec.counted)


def _placed(by_instant: Mapping[str, Sequence[LogPart]]) -> list[str]:
    """The instants in the order of the merge: what a log compaction replaced is left out."""
    result_of: dict[str, str] = {}
    placed: list[str] = []
    for instant in reversed(list(by_instant)):
        replaced = by_instant[instant][0].header.get(HeaderKey.COMPACTED_BLOCK_TIMES)
        if replaced is not None:
            last = result_of.get(instant, instant)
            result_of.update(dict.fromkeys(replaced.split(","), last))
            continue
        stands = result_of.get(instant, instant)
        if stands not in placed:
            placed.append(stands)
    return placed[::-1]


def _check(part: LogPart) -> None:
    if part.kind not in (*DATA, BlockType.DELETE):
        feature = f"log blocks of the type {part.kind.name}"
        raise UnsupportedTable(
            f"{part.path} has {feature}, which pyhudi cannot merge. Let Apache Hudi compact the "
            "table, then read it again.",
            feature=feature,
        )


def _mask(flags: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(flags, False))


def every(parts: Sequence[LogPart], base_instant: str) -> list[Positions] | None:
    """The positions of all parts; None unless each has some in the base file of that instant."""
    found: list[Positions] = []
    for part in parts:
        held = part.positions(base_instant)
        if held is None:
            return None
        found.append(held)
    return found


def check_sizes(parts: Sequence[LogPart], placed: Sequence[Positions]) -> None:
    """``TableCorrupt`` unless each row of each part has one of its positions."""
    for part, held in zip(parts, placed, strict=True):
        if part.size != len(held):
            raise _misplaced(part, f"a block has {len(held)} positions for {part.size} rows")


def check_places(
    spec: MergeSpec, parts: Sequence[LogPart], placed: Sequence[Positions], rows: int
) -> None:
    """``TableCorrupt`` unless each row of each part has one of the base file's ``rows`` places."""
    for part, held in zip(parts, placed, strict=True):
        # To count deletes they must be decoded, and without ordering values nobody asks for them.
        if spec.ordering_paths or not part.deletes:
            check_sizes([part], [held])
        if held[-1] >= rows:
            reason = f"a block has the position {held[-1]} in a base file of {rows} rows"
            raise _misplaced(part, reason)


def _misplaced(part: LogPart, reason: str) -> TableCorrupt:
    return corrupt(part.path, "each row of a block with positions has one", reason)


def chunks(at: Positions, rows: int) -> Iterator[Positions]:
    """``at`` in pieces of at most ``rows``."""
    for start in range(0, len(at), rows):
        yield at[start : start + rows]
