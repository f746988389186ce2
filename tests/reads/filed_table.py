"""A table of Parquet files on local disk, and an oracle of what each of its commits did.

Commits are put by hand, each by the form of one operation. The oracle knows no files: it is a dict
from key to row, and a list of changes that are noted beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.application.runtime import Runtime
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.schemas import canonical_json, spark_to_avro
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.reads.change_data import ChangePlan, change_schema, plan_changes
from pyhudi.reads.conditions import Filter
from pyhudi.reads.scan import Query, open_query
from pyhudi.rows.change_reader import read_changes
from pyhudi.rows.spec import META_COLUMNS
from pyhudi.services.file_systems import filesystems
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import PROPERTIES
from tests.fakes import FakeClock

BEGIN, END = "hoodie.datasource.read.begin.instanttime", "hoodie.datasource.read.end.instanttime"
FORM = "hoodie.datasource.query.incremental.format"
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "string"), ("v", "long"))
    ],
}
#: (operation, commit, row before, row after)
Change = tuple[str, str, Any, Any]
Row = dict[str, Any]


def asked(begin: str = "earliest", end: str | None = None, **others: str) -> dict[str, str]:
    """Options of a read of change data with the images as structs."""
    options = {
        "hoodie.datasource.query.type": "incremental",
        FORM: "cdc_columns",
        BEGIN: begin,
        **others,
    }
    return options if end is None else {**options, END: end}


def query_at(root: str, options: Mapping[str, str]) -> Query:
    """The table at ``root`` as a read with ``options`` opens it."""
    storage = LocalStorage(root)
    runtime = Runtime(
        FakeClock(), lambda at: storage, filesystems({}), None, None  # type: ignore[arg-type]
    )  # fmt: skip
    return open_query(runtime, root, options, {})


def changes_at(
    root: str,
    options: Mapping[str, str],
    filters: Iterable[Filter] = (),
    wanted: SparkSchema | None = None,
) -> list[Row]:
    """The change data as rows, each a dict of the columns that are read."""
    query = query_at(root, options)
    return rows_of(plan_changes(query, wanted or change_schema(query), tuple(filters)))


def rows_of(plan: ChangePlan) -> list[Row]:
    """What the workers of a plan read."""
    numbers = pa.record_batch([pa.array([0])], names=["id"])
    return [
        row
        for batch in read_changes(plan.spec, [plan.pieces])(iter([numbers]))
        for row in batch.to_pylist()
    ]


def as_changes(rows: Iterable[Row]) -> list[Change]:
    """The rows in one order."""
    return sorted(
        ((r["op"], r["ts_ms"], r["before"], r["after"]) for r in rows), key=str
    )  # fmt: skip


def at(number: int) -> InstantTime:
    """The instant of the commit ``number``."""
    return InstantTime(f"202401010000{number:05d}")


@dataclass(slots=True)
class OnDisk:
    """A table on local disk as a ``Follower`` opens it."""

    root: str
    layout: int
    clock: FakeClock = field(default_factory=FakeClock)

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(self.root)

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            self.clock, lambda at: self.storage, filesystems({}), None, None  # type: ignore[arg-type]
        )  # fmt: skip


@dataclass(slots=True)
class FiledTable:
    """One table without partitions; its groups hold rows as key -> (value, commit)."""

    root: Path
    #: file group -> its rows in their order, and the name of its newest file
    groups: dict[str, tuple[dict[str, tuple[int, int]], str]] = field(default_factory=dict)
    noted: list[Change] = field(default_factory=list)
    row_group: int = 3
    #: completion times that differ from the request
    done: dict[int, int] = field(default_factory=dict)

    @classmethod
    def at(cls, root: Path) -> FiledTable:
        """A new table."""
        properties = new_table_properties(
            name="t", version=9, record_key_fields=["id"], partition_fields=[],
            ordering_fields=[], merge_mode=MergeMode.COMMIT_TIME_ORDERING,
            key_generator=KeyGenerator.NON_PARTITION,
        )  # fmt: skip
        LocalStorage(str(root)).put_if_absent(PROPERTIES, render_properties(properties))
        return cls(root)

    @property
    def layout(self) -> int:
        return 2

    @property
    def world(self) -> OnDisk:
        return OnDisk(str(self.root), self.layout)

    def merge(
        self, number: int, group: str, rows: Mapping[str, int | None], operation: str = "UPSERT"
    ) -> None:
        """Upserts and (None) deletes of one group; old rows keep their order, new ones follow."""
        old, name = self.groups.get(group, ({}, ""))
        new = dict(old)
        for key, value in rows.items():
            before = _row(key, old[key][0]) if key in old else None
            if value is None:
                if new.pop(key, None) is not None:
                    self.noted.append(("d", at(number), before, None))
            else:
                new[key] = (value, number)
                self.noted.append(("u" if before else "i", at(number), before, _row(key, value)))
        stat = self._write(number, group, new, name or None, rows, old)
        self._commit(number, CommitMetadata(operation, (stat,), self._extra()))

    def replace(
        self, number: int, gone: Iterable[str], made: str | None, rows: Mapping[str, int]
    ) -> None:
        """An insert overwrite, or without ``made`` a delete of partitions."""
        replaced = tuple(map(FileId, gone))
        for group in replaced:
            for key, (value, _) in self.groups.pop(group)[0].items():
                self.noted.append(("d", at(number), _row(key, value), None))
        stats = []
        if made is not None:
            new = {key: (value, number) for key, value in rows.items()}
            self.noted += [("i", at(number), None, _row(k, v)) for k, v in rows.items()]
            stats.append(self._write(number, made, new, None, rows, {}))
        operation = "INSERT_OVERWRITE" if stats else "DELETE_PARTITION"
        metadata = CommitMetadata(operation, tuple(stats), self._extra(), {"": replaced})
        self._commit(number, metadata, Action.REPLACECOMMIT)

    def cluster(self, number: int, gone: Iterable[str], made: str) -> None:
        """Moves the rows of groups to one group, as they are."""
        replaced = tuple(map(FileId, gone))
        rows = {k: v for group in replaced for k, v in self.groups.pop(group)[0].items()}
        stat = self._write(number, made, rows, None, {}, {})
        metadata = CommitMetadata("CLUSTER", (stat,), self._extra(), {"": replaced})
        self._commit(number, metadata, Action.REPLACECOMMIT)

    def declare(self, number: int, *columns: str) -> None:
        """A commit that changes no row, after which the table has only these ``columns``."""
        fields = [each for each in SCHEMA["fields"] if each["name"] in columns]
        declared = canonical_json(spark_to_avro({"type": "struct", "fields": fields}, "t"))
        self._commit(number, CommitMetadata("ALTER_SCHEMA", (), {SCHEMA_KEY: declared}))

    def file_of(self, group: str) -> Path:
        """The newest base file of a group."""
        return self.root / self.groups[group][1]

    def _write(
        self,
        number: int,
        group: str,
        rows: Mapping[str, tuple[int, int]],
        previous: str | None,
        given: Mapping[str, int | None],
        old: Mapping[str, object],
    ) -> WriteStat:
        name = BaseFileName(FileId(group), "0-0-0", at(number)).render()
        meta = [
            (at(commit), f"{at(commit)}_0_{n}", key, "", name)
            for n, (key, (_, commit)) in enumerate(rows.items())
        ]
        columns = {
            column: pa.array([row[n] for row in meta], pa.string())
            for n, column in enumerate(META_COLUMNS)
        }
        columns["id"] = pa.array(list(rows), pa.string())
        columns["v"] = pa.array([value for value, _ in rows.values()], pa.int64())
        pq.write_table(pa.table(columns), self.root / name, row_group_size=self.row_group)
        self.groups[group] = dict(rows), name
        deleted = sum(value is None and key in old for key, value in given.items())
        inserted = sum(value is not None and key not in old for key, value in given.items())
        return WriteStat(
            FileId(group), name, "",
            previous.split("_")[-1].removesuffix(".parquet") if previous else None,
            len(rows), inserted, len(given) - deleted - inserted, deleted,
            file_size_bytes=(self.root / name).stat().st_size, prev_base_file=previous,
        )  # fmt: skip

    def _extra(self) -> dict[str, str]:
        return {SCHEMA_KEY: canonical_json(spark_to_avro(SCHEMA, "t"))}

    def _commit(
        self, number: int, metadata: CommitMetadata, action: Action = Action.COMMIT
    ) -> None:
        done = at(self.done.get(number, number))
        instant = Instant(at(number), action, State.COMPLETED, done)
        LocalStorage(str(self.root)).put_if_absent(
            f".hoodie/timeline/{instant_file_name(instant, 2)}", render_commit(metadata, 2)
        )


def _row(key: str, value: int) -> Row:
    return {"id": key, "v": value}
