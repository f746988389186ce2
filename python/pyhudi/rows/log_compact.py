"""The worker function of a log compaction: the logs of a slice become one log beside its base file.

The events that still decide are copied byte for byte, deletes too, so the merge of the new log is
that of the old ones. Its blocks name the instants that it stands for (spec/log_files.md L10).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.delete_block import records_content
from pyhudi.format.log_blocks import BlockType, HeaderKey, framed_content
from pyhudi.rows.base_file import Counts, TableFiles
from pyhudi.rows.damage import readable
from pyhudi.rows.log_parts import LogPart
from pyhudi.rows.log_spec import CompactTask, MergeSpec, Positions
from pyhudi.rows.log_stream import BLOCK_BYTES, LogStream
from pyhudi.rows.slice_merge import NewestEvents, newest_events
from pyhudi.rows.slice_reader import parts_in

#: the blocks of these parts become one: deletes, or rows of one schema
Kind = tuple[BlockType, str]


@dataclass(frozen=True, slots=True)
class MergedBlock:
    """A block of the new log; ``places`` are its rows' in the base file, None if they have none."""

    kind: BlockType
    header: Mapping[int, str]
    content: bytes
    places: Positions | None


def log_compacted(
    files: TableFiles, order: MergeSpec, task: CompactTask
) -> dict[str, object] | None:
    """Write the log; its row of ``STAT_SCHEMA``.

    None if no block of the slice's logs counts, or if one has rows with some columns only: these
    need those that they lie over, so they wait for a compaction (spec/merging.md R5).
    """
    plan, of = task.plan, task.slice
    with readable(", ".join(of.logs)):
        parts = parts_in(order, files.fs, of)
        if not parts or any(part.partial for part in parts):
            return None
        found = newest_events(order, parts, of.base_instant)
        stream, counts = LogStream(files, plan), Counts()
        for number, part in enumerate(parts):
            kept = len(found.kept[number])
            counts.deletes += kept if part.deletes else 0
            counts.updates += 0 if part.deletes else kept
        for block in merged_blocks(parts, found):
            stream.write(block.kind, block.header, block.content, block.places)
    return stream.close(counts, plan.base_instant or files.spec.instant)


def merged_blocks(parts: Sequence[LogPart], found: NewestEvents) -> Iterator[MergedBlock]:
    """The blocks that stand for ``parts``, of which the events ``found`` still decide.

    Rows are in blocks of about ``BLOCK_BYTES`` bytes; all deletes are one block, as in Apache Hudi.
    """
    replaced = ",".join(dict.fromkeys(part.instant for part in parts))
    for (kind, schema), chosen in _kinds(parts, found).items():
        header: dict[int, str] = {
            HeaderKey.SCHEMA: schema,
            HeaderKey.COMPACTED_BLOCK_TIMES: replaced,
        }
        records, places = _gathered(parts, found, chosen)
        whole = kind is BlockType.DELETE
        for start, end in [(0, len(records))] if whole else _pieces(records):
            piece = records.slice(start, end - start)
            make = records_content if whole else framed_content
            at = None if places is None else places[start:end]
            yield MergedBlock(kind, header, make(_joined(piece), len(piece)), at)


def _kinds(parts: Sequence[LogPart], found: NewestEvents) -> dict[Kind, list[int]]:
    """The numbers of the parts that have events which still decide, by kind; rows come first."""
    rows: dict[Kind, list[int]] = {}
    deletes: list[int] = []
    for number, part in enumerate(parts):
        if len(found.kept[number]):
            if part.deletes:
                deletes.append(number)
            else:
                rows.setdefault((BlockType.AVRO_DATA, part.schema), []).append(number)
    if deletes:
        rows[BlockType.DELETE, parts[deletes[-1]].schema] = deletes
    return rows


def _gathered(
    parts: Sequence[LogPart], found: NewestEvents, chosen: Sequence[int]
) -> tuple[pa.LargeBinaryArray, Positions | None]:
    """The events of the ``chosen`` parts, by their place in the base file if they have one."""
    held = [parts[number].records().take(pa.array(found.kept[number])) for number in chosen]
    records = pa.concat_arrays(held)
    if found.places is None:
        return records, None
    places = np.concatenate([found.places[number] for number in chosen])
    order = np.argsort(places, kind="stable")
    return records.take(pa.array(order)), places[order]


def _pieces(records: pa.LargeBinaryArray) -> Iterator[tuple[int, int]]:
    """The first and the last row + 1 of blocks of about ``BLOCK_BYTES``."""
    ends = np.cumsum(np.asarray(pc.binary_length(records)))
    start = 0
    while start < len(records):
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + BLOCK_BYTES)) + 1
        yield start, min(end, len(records))
        start = end


def _joined(records: pa.LargeBinaryArray) -> bytes:
    """The bytes of ``records``, one after the other."""
    offsets = np.frombuffer(records.buffers()[1], "<i8")
    first, last = offsets[records.offset], offsets[records.offset + len(records)]
    return memoryview(records.buffers()[2])[first:last].tobytes()
