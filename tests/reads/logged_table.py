"""A merge-on-read table of real files, written as ``filed_table.py`` writes a copy-on-write one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import FileId, LogFileName, parse_data_file_name
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.plans import CleanMetadata, render_clean_metadata
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.rows.spec import COMMIT_TIME_COLUMN
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import PROPERTIES
from tests.reads.filed_table import FiledTable, at
from tests.rows.logs import avro_block, delete_block, positions

COLUMNS = {COMMIT_TIME_COLUMN: "string", "id": "string", "v": "long"}


@dataclass(slots=True)
class LoggedTable(FiledTable):
    """Changes of a group that exists go to a log, of which half have positions."""

    version: int = 9
    draw: Random = field(default_factory=lambda: Random(0))
    #: file group -> the instant and the keys of its newest base file
    bases: dict[str, tuple[InstantTime, list[str]]] = field(default_factory=dict)
    #: file group -> its logs of each slice, by the name of the slice
    versions: dict[tuple[str, str], int] = field(default_factory=dict)
    #: planned compactions: file group -> the number of the plan, and the rows that it has
    plans: dict[str, tuple[int, dict[str, tuple[int, int]]]] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path, version: int = 9, seed: int = 0) -> LoggedTable:
        """A new table."""
        properties = new_table_properties(
            name="t", version=version, table_type="MERGE_ON_READ", record_key_fields=["id"],
            partition_fields=[], ordering_fields=[], merge_mode=MergeMode.COMMIT_TIME_ORDERING,
            key_generator=KeyGenerator.NON_PARTITION,
        )  # fmt: skip
        LocalStorage(str(root)).put_if_absent(PROPERTIES, render_properties(properties))
        return cls(root, version=version, draw=Random(seed))

    @property
    def layout(self) -> int:
        return 1 if self.version == 6 else 2

    def plan(self, number: int, group: str) -> None:
        """Plans a compaction of one group; ``compact`` runs it."""
        self.plans[group] = number, dict(self.groups[group][0])
        self._put(Instant(at(number), Action.COMPACTION, State.REQUESTED), b"")

    def compact(self, number: int, group: str) -> None:
        """Merges a group with its logs, by its plan if there is one."""
        if group not in self.plans:
            self.plan(number, group)
        planned, rows = self.plans.pop(group)
        newest = self.groups[group][0]
        stat = self._base(planned, group, rows, self.groups[group][1], {}, {})
        self.groups[group] = newest, self.groups[group][1]
        metadata = CommitMetadata("COMPACT", (stat,), self._extra(), compacted=True)
        self._commit(planned, metadata, Action.COMMIT)

    def clean(self, number: int, kept: int) -> None:
        """Deletes what a compaction of before the commit ``kept`` has merged."""
        for group, (instant, _) in self.bases.items():
            for file in (*self.root.glob(f"{group}_*"), *self.root.glob(f".{group}_*")):
                name = parse_data_file_name(file.name)
                if name is not None and name.instant < instant <= at(kept):
                    file.unlink()
        metadata = CleanMetadata(at(number), 1, 1, at(kept), at(kept), {})
        done = at(number) if self.layout == 2 else None
        instant = Instant(at(number), Action.CLEAN, State.COMPLETED, done)
        self._put(instant, render_clean_metadata(metadata))

    def _write(
        self,
        number: int,
        group: str,
        rows: Mapping[str, tuple[int, int]],
        previous: str | None,
        given: Mapping[str, int | None],
        old: Mapping[str, object],
    ) -> WriteStat:
        if previous is None:
            return self._base(number, group, rows, previous, given, old)
        self.groups[group] = dict(rows), previous
        instant, keys = self.bases[group]
        slice_of = instant if group not in self.plans else at(self.plans[group][0])
        named = slice_of if self.layout == 1 else at(number)
        count = self.versions[group, named] = self.versions.get((group, named), 0) + 1
        name = LogFileName(FileId(group), named, count, "0-0-0").render()
        made = {key: value for key, value in given.items() if value is not None}
        gone = [key for key in given if key not in made]
        header = {}
        if self.layout == 2 and set(given) <= set(keys) and self.draw.random() < 0.5:
            made = {key: made[key] for key in sorted(made, key=keys.index)}
            gone.sort(key=keys.index)
            header = {"x": "positions"}
        data = b""
        if made:
            rows_of = [
                {"key": key, COMMIT_TIME_COLUMN: at(number), "id": key, "v": value}
                for key, value in made.items()
            ]
            places = positions(instant, [keys.index(key) for key in made]) if header else {}
            data += avro_block(at(number), rows_of, COLUMNS, **places)
        if gone:
            places = positions(instant, [keys.index(key) for key in gone]) if header else {}
            data += delete_block(at(number), *gone, **places)
        (self.root / name).write_bytes(data)
        deleted = sum(key in old for key in gone)
        inserted = sum(key not in old for key in made)
        layout_1 = self.layout == 1
        return WriteStat(
            FileId(group), name, "", instant if layout_1 else at(number), len(made), inserted,
            len(made) - inserted, deleted, file_size_bytes=len(data), log_version=count,
            base_file=previous if layout_1 else "", log_files=(name,),
        )  # fmt: skip

    def _base(
        self,
        number: int,
        group: str,
        rows: Mapping[str, tuple[int, int]],
        previous: str | None,
        given: Mapping[str, int | None],
        old: Mapping[str, object],
    ) -> WriteStat:
        stat = FiledTable._write(self, number, group, rows, previous, given, old)
        self.bases[group] = at(number), list(rows)
        return stat

    def _commit(
        self, number: int, metadata: CommitMetadata, action: Action = Action.DELTACOMMIT
    ) -> None:
        done = at(self.done.get(number, number)) if self.layout == 2 else None
        instant = Instant(at(number), action, State.COMPLETED, done)
        self._put(instant, render_commit(metadata, self.layout))

    def _put(self, instant: Instant, data: bytes) -> None:
        folder = ".hoodie" if self.layout == 1 else ".hoodie/timeline"
        path = f"{folder}/{instant_file_name(instant, self.layout)}"
        LocalStorage(str(self.root)).put_if_absent(path, data)
