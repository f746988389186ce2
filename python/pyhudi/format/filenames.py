"""Names of data files: base files and log files (spec/data_files.md D1).

A name has the file group, the write attempt and the instant, so a listing alone gives the
file-system view. ``parse`` of ``render`` is the identity. This module is sent to executors by
value: it imports nothing of pyhudi at run time and never calls a ``NewType``, which pickles by
reference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NewType, cast

if TYPE_CHECKING:
    from pyhudi.format.instants import InstantTime

FileId = NewType("FileId", str)

PARQUET = ".parquet"

_BASE = re.compile(r"([^_/.][^_/]*)_([^_/]+)_(\d{14,20})(\.(?:parquet|orc|hfile|lance))")
_LOG = re.compile(r"\.([^_/]+)_(\d{14,20})\.log\.(\d{1,9})(?:_(\d+-\d+-\d+)(\.cdc)?)?")
_BUCKET = re.compile(r"[0-9]{8}(?=-)", re.ASCII)


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """``<file_id>_<write_token>_<instant><extension>``; the extension keeps its dot."""

    file_id: FileId
    write_token: str
    instant: InstantTime
    extension: str = PARQUET

    def render(self) -> str:
        """The file's name, without its folder."""
        return f"{self.file_id}_{self.write_token}_{self.instant}{self.extension}"


@dataclass(frozen=True, slots=True)
class LogFileName:
    """``.<file_id>_<instant>.log.<version>_<write_token>``, with ``.cdc`` for change logs.

    ``instant`` is the slice's base instant in layout 1 and the delta commit itself in layout 2.
    Logs of very old writers have no write token.
    """

    file_id: FileId
    instant: InstantTime
    version: int
    write_token: str | None
    cdc: bool = False

    def render(self) -> str:
        """The file's name, without its folder."""
        token = "" if self.write_token is None else f"_{self.write_token}"
        return f".{self.file_id}_{self.instant}.log.{self.version}{token}{'.cdc' * self.cdc}"


def parse_base_file_name(name: str) -> BaseFileName | None:
    """The parts of a base file's name; ``None`` if ``name`` is not one."""
    found = _BASE.fullmatch(name)
    if found is None:
        return None
    file_id, token, instant, extension = found.groups()
    return BaseFileName(cast("FileId", file_id), token, cast("InstantTime", instant), extension)


def parse_log_file_name(name: str) -> LogFileName | None:
    """The parts of a log file's name; ``None`` if ``name`` is not one."""
    found = _LOG.fullmatch(name)
    if found is None:
        return None
    file_id, instant, version, token, cdc = found.groups()
    return LogFileName(
        cast("FileId", file_id), cast("InstantTime", instant), int(version), token, cdc is not None
    )


def parse_data_file_name(name: str) -> BaseFileName | LogFileName | None:
    """The parts of a data file's name, base or log; ``None`` if ``name`` is neither."""
    return parse_base_file_name(name) or parse_log_file_name(name)


def bucket_file_id(bucket: int, uuid: str) -> FileId:
    """The file group of a bucket: the uuid's first eight characters become its number.

    ``ValueError`` for a bucket outside 0..99999999 or a text that is not a uuid.
    """
    if not 0 <= bucket < 100_000_000:
        raise ValueError(f"bucket {bucket} has no eight-digit number")
    if len(uuid) != 36:
        raise ValueError(f"'{uuid}' is not a uuid")
    return cast("FileId", f"{bucket:08d}{uuid[8:]}-0")


def shared_bucket_file_id(bucket: int, number: int = 0) -> FileId:
    """The file group that writers without coordination begin for a bucket, the same for all.

    ``number`` is 0 in Apache Hudi (spec/keys.md K6). ``ValueError`` for a bucket outside
    0..99999999.
    """
    return bucket_file_id(bucket, f"00000000-0000-0000-0000-{number:012d}")


def bucket_number(file_id: str) -> int | None:
    """The bucket in a file id, ``None`` if its first eight characters are not a number.

    One random uuid in 43 looks like a bucket, so a table must be judged by all its names together.
    """
    found = _BUCKET.match(file_id)
    return None if found is None else int(found.group())


def path_in(partition_path: str, name: str) -> str:
    """The path, below the table, of a file in a partition; that of a table without partitions is
    empty."""
    return f"{partition_path}/{name}" if partition_path else name
