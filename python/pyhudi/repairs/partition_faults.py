"""Faults beside the data: checksums of Hadoop's client, and the metadata of partitions."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from pyhudi.errors import HudiError
from pyhudi.format.filenames import PARQUET, path_in
from pyhudi.format.instants import InstantTime
from pyhudi.format.partition_metadata import FILE_NAME, depth_of, parse, render
from pyhudi.repairs.fault_kind import Kind, TableFault
from pyhudi.repairs.patient import Patient
from pyhudi.services.bin import Edit
from pyhudi.storage.names import crc_neighbour
from pyhudi.timeline.table import PROPERTIES

#: of Hadoop's checksum file: four letters with the version, the bytes of a chunk, and a CRC-32 each
_HEADER = struct.Struct(">4sI")
_MAGIC = b"crc\x00"


def _stale_checksums(patient: Patient) -> Iterator[TableFault]:
    if not patient.storage.root.startswith("/"):
        return  # object stores and HDFS keep checksums elsewhere
    sizes = {PROPERTIES: len(patient.raw or b"")} if patient.raw is not None else {}
    if patient.is_open:
        sizes |= {file.path: file.size_bytes for file in patient.timeline_files}
        sizes |= patient.sizes
    for path, size in sorted(sizes.items()):
        folder, _, name = path.rpartition("/")
        checksum = path_in(folder, crc_neighbour(name))
        said = patient.read(checksum)
        if said is None:
            continue
        is_data = name.endswith(PARQUET)
        whole = patient.wishes.read_files or not is_data
        wrong = _difference(said, size, patient.read(path) if whole else None)
        if wrong:
            yield TableFault(
                checksum,
                f"It is not of the bytes that {name} has: {wrong}.",
                "Move the checksum to the bin; the file stays as it is.",
                (Edit(checksum, None),),
            )


def _difference(said: bytes, size: int, data: bytes | None) -> str:
    """How a checksum file differs from that of a file; ``data`` is None if only its size counts."""
    if len(said) < _HEADER.size or said[: len(_MAGIC)] != _MAGIC:
        return "it is cut short"
    chunk = _HEADER.unpack_from(said)[1]
    chunks = -(-size // chunk) if chunk else 0
    if len(said) != _HEADER.size + 4 * chunks:
        return f"the file has {size} bytes"
    if data is None:
        return ""
    sums = (zlib.crc32(data[at : at + chunk]) for at in range(0, size, chunk))
    right = b"".join(struct.pack(">I", each) for each in sums)
    return "" if right == said[_HEADER.size :] else "the CRC-32 of a chunk differs"


def _partitions(patient: Patient) -> dict[str, InstantTime]:
    """Each partition with a file that counts, and the earliest instant of such a file."""
    found: dict[str, InstantTime] = {}
    for file, instant in patient.data_files:
        partition = file.path[: -len(file.name)].rstrip("/")
        if patient.is_committed(instant):
            found[partition] = min(found.get(partition, instant), instant)
    return found


def _lost_metadata(patient: Patient) -> Iterator[TableFault]:
    for partition, made in sorted(_partitions(patient).items()):
        path = path_in(partition, FILE_NAME)
        if not {path, path + PARQUET, path + ".orc"} & patient.sizes.keys():
            yield TableFault(
                path,
                f"The partition '{partition}' has data files since {made}, and no {FILE_NAME}.",
                "Put it again.",
                (Edit(path, render(made, depth_of(partition))),),
            )


def _torn_metadata(patient: Patient) -> Iterator[TableFault]:
    for partition, made in sorted(_partitions(patient).items()):
        path = path_in(partition, FILE_NAME)
        if path not in patient.sizes:
            continue
        depth = depth_of(partition)
        try:
            _, said = parse(patient.read(path) or b"", path)
            evidence = f"It says depth {said}; the partition '{partition}' is at depth {depth}."
        except HudiError as e:
            said, evidence = -1, str(e)
        if said != depth:
            text = "Put it again, as of the first commit of the partition."
            yield TableFault(path, evidence, text, (Edit(path, render(made, depth)),))


PARTITION_KINDS = (
    Kind(
        "stale checksum of Hadoop's client",
        "spec/other_files.md O3",
        "pyhudi and hudi-rs read the file; Apache Hudi refuses it",
        _stale_checksums,
        closed=True,
    ),
    Kind(
        "partition metadata lost",
        "spec/data_files.md D5",
        "pyhudi and hudi-rs read the partition; Apache Hudi may read no rows of it",
        _lost_metadata,
    ),
    Kind(
        "partition metadata torn",
        "spec/data_files.md D5",
        "all read the partition as long as the file is there",
        _torn_metadata,
    ),
)
