"""Tables on local disk, made file by file: real Parquet with meta columns, and commits of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import PROPERTIES

#: partition, group -> key -> the instant that wrote it
Slices = Mapping[tuple[str, str], Mapping[str, int]]


def t(n: int) -> InstantTime:
    return InstantTime(f"202401010000{n:05d}")


class Ledger:
    """A table of ``version`` in ``root``, with the key ``id``."""

    def __init__(self, root: Path, version: int = 9, keys: Iterable[str] = ("id",)) -> None:
        self.root, self.layout = root, 1 if version < 8 else 2
        self.folder = ".hoodie/timeline" if self.layout == 2 else ".hoodie"
        self.storage = LocalStorage(str(root))
        self._tokens = itertools.count()
        properties = new_table_properties(
            name="t",
            version=version,
            record_key_fields=list(keys),
            partition_fields=["p"],
            ordering_fields=[],
            merge_mode=MergeMode.COMMIT_TIME_ORDERING,
            key_generator=KeyGenerator.COMPLEX,
            extra={},
        )
        self.storage.put_if_absent(PROPERTIES, render_properties(properties))

    def file(self, group: tuple[str, str], time: int, rows: Mapping[str, int]) -> str:
        """A base file whose rows have these keys and commit times; gives its path."""
        partition, file_id = group
        token = f"0-0-{next(self._tokens)}"
        path = f"{partition}/{BaseFileName(FileId(file_id), token, t(time)).render()}"
        (self.root / partition).mkdir(exist_ok=True)
        columns = {
            "_hoodie_commit_time": [t(each) for each in rows.values()],
            "_hoodie_record_key": list(rows),
        }
        table = pa.table({name: pa.array(v, pa.string()) for name, v in columns.items()})
        if rows:
            ends = {"hoodie_min_record_key": min(rows), "hoodie_max_record_key": max(rows)}
            table = table.replace_schema_metadata(ends)
        pq.write_table(table, self.root / path)
        return path

    def stat(self, group: tuple[str, str], path: str, **facts: int | str) -> WriteStat:
        """What a commit says of a file."""
        size = (self.root / path).stat().st_size
        return WriteStat(
            FileId(group[1]),
            path,
            group[0],
            file_size_bytes=size,
            total_write_bytes=size,
            **facts,  # type: ignore[arg-type]
        )

    def commit(
        self,
        time: int,
        operation: str,
        slices: Slices,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
        extra: Mapping[str, str] | None = None,
        **facts: int | str,
    ) -> list[str]:
        """A completed commit with these slices; gives their paths."""
        paths = {group: self.file(group, time, rows) for group, rows in slices.items()}
        stats = tuple(self.stat(group, path, **facts) for group, path in paths.items())
        gone = None if replaced is None else {p: tuple(map(FileId, i)) for p, i in replaced.items()}
        action = Action.COMMIT if replaced is None else Action.REPLACECOMMIT
        metadata = CommitMetadata(operation.upper(), stats, extra or {}, gone)
        self.put(Instant(t(time), action, State.COMPLETED), render_commit(metadata, self.layout))
        return list(paths.values())

    def put(self, instant: Instant, data: bytes = b"") -> None:
        """An instant's file; a completed one completes at once."""
        if instant.state is State.COMPLETED and self.layout == 2:
            instant = Instant(instant.time, instant.action, instant.state, instant.time)
        self.storage.put_if_absent(f"{self.folder}/{instant_file_name(instant, self.layout)}", data)
