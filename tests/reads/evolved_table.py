"""A merge-on-read table whose writers have schemas of their own, on disk and without Spark.

What a commit declares and what its file holds are given apart, as RFC-82 settles them: a write that
began before another one changed the schema declares the new one, over rows of the old.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.column_ids import first_ids, identified, version_of
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId, LogFileName
from pyhudi.format.instants import Action, Instant, State, instant_file_name
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.schema_history import (
    LATEST_SCHEMA_KEY,
    SchemaVersion,
    history_file,
    render_version,
)
from pyhudi.format.schemas import canonical_json, spark_to_avro
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.rows.spec import COMMIT_TIME_COLUMN, META_COLUMNS
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.schema_history import extended
from pyhudi.timeline.table import PROPERTIES
from tests.reads.filed_table import at
from tests.rows.logs import avro_block, delete_block, positions

#: column -> its type in Spark's JSON
Columns = Mapping[str, str]
Row = Mapping[str, Any]
ARROW = {
    "string": pa.string(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
AVRO = {"integer": "int"}
GROUP = FileId("g1")


@dataclass
class EvolvedTable:
    """One file group; a row has its key in ``id``."""

    root: Path
    version: int = 9
    ordering: str = ""
    base: tuple[int, list[str]] | None = None
    logs: int = 0
    #: whether columns have ids, and the newest version with the text of the history
    ids: bool = False
    known: SchemaVersion | None = None
    history: str = ""
    storage: LocalStorage = field(init=False)

    def __post_init__(self) -> None:
        self.storage = LocalStorage(str(self.root))
        mode = MergeMode.EVENT_TIME_ORDERING if self.ordering else MergeMode.COMMIT_TIME_ORDERING
        properties = new_table_properties(
            name="t", version=self.version, table_type="MERGE_ON_READ", record_key_fields=["id"],
            partition_fields=[], ordering_fields=[self.ordering] if self.ordering else [],
            merge_mode=mode, key_generator=KeyGenerator.NON_PARTITION,
        )  # fmt: skip
        self.storage.put_if_absent(PROPERTIES, render_properties(properties))

    @property
    def layout(self) -> int:
        return 1 if self.version == 6 else 2

    def insert(
        self, number: int, held: Columns, rows: Sequence[Row], done: int | None = None,
        declared: Columns | None = None, compacts: bool = False,
    ) -> None:  # fmt: skip
        """A commit of a base file with the columns ``held``."""
        name = BaseFileName(GROUP, "0-0-0", at(number)).render()
        keys = [row["id"] for row in rows]
        meta = {each: [""] * len(rows) for each in META_COLUMNS}
        meta[META_COLUMNS[0]] = [str(row.get("_at", at(number))) for row in rows]
        meta[META_COLUMNS[2]] = keys
        columns = {each: pa.array(texts, pa.string()) for each, texts in meta.items()}
        for column, kind in held.items():
            columns[column] = pa.array([row.get(column) for row in rows], ARROW[kind])
        pq.write_table(pa.table(columns), self.root / name)
        previous = at(self.base[0]) if self.base is not None else None
        self.base, self.logs = (number, keys), 0
        stat = WriteStat(
            GROUP, name, "", previous, len(rows), file_size_bytes=(self.root / name).stat().st_size
        )
        operation = "COMPACT" if compacts else "INSERT"
        action = Action.COMMIT if compacts else Action.DELTACOMMIT
        self._commit(number, stat, declared or held, done, operation, action)

    def declare(self, number: int, declared: Columns, done: int | None = None) -> None:
        """A commit without files."""
        self._commit(number, None, declared, done, "UPSERT", Action.DELTACOMMIT)

    def begin(self, number: int) -> None:
        """A write that is pending until it commits."""
        for state in (State.REQUESTED, State.INFLIGHT):
            self._put(Instant(at(number), Action.DELTACOMMIT, state), b"")

    def append(
        self, number: int, held: Columns, rows: Sequence[Row], gone: Sequence[Any] = (),
        done: int | None = None, declared: Columns | None = None, places: bool = False,
    ) -> None:  # fmt: skip
        """A commit of a log with a block of ``rows`` in the columns ``held``, and deletes.

        ``gone`` are keys, or pairs of a key and an ordering value. With ``places`` the blocks say
        the rows' positions in the base file.
        """
        assert self.base is not None
        begin, keys = self.base
        self.logs += 1
        named = at(begin if self.layout == 1 else number)
        name = LogFileName(GROUP, named, self.logs, "0-0-0").render()
        kinds = {COMMIT_TIME_COLUMN: "string"} | {c: AVRO.get(k, k) for c, k in held.items()}
        data = b""
        if rows:
            given = [{"key": r["id"], COMMIT_TIME_COLUMN: at(number), **r} for r in rows]
            where = [keys.index(r["id"]) for r in rows] if places else []
            header = positions(at(begin), where) if places else {}
            data += avro_block(at(number), given, kinds, **header)
        if gone:
            names = [each if isinstance(each, str) else each[0] for each in gone]
            header = positions(at(begin), [keys.index(n) for n in names]) if places else {}
            data += delete_block(at(number), *gone, **header)
        (self.root / name).write_bytes(data)
        base = BaseFileName(GROUP, "0-0-0", at(begin)).render()
        layout_1 = self.layout == 1
        stat = WriteStat(
            GROUP, name, "", at(begin) if layout_1 else at(number), len(rows), 0, len(rows),
            len(gone), file_size_bytes=len(data), log_version=self.logs,
            base_file=base if layout_1 else "", log_files=(name,),
        )  # fmt: skip
        self._commit(number, stat, declared or held, done, "UPSERT", Action.DELTACOMMIT)

    def _commit(
        self,
        number: int,
        stat: WriteStat | None,
        declared: Columns,
        done: int | None,
        operation: str,
        action: Action,
    ) -> None:
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in declared.items()
        ]
        text = canonical_json(spark_to_avro({"type": "struct", "fields": fields}, "t"))
        extra = {SCHEMA_KEY: text}
        completed = at(number if done is None else done)
        if self.ids:
            struct = SparkSchema.parse({"type": "struct", "fields": fields})
            own = first_ids(struct) if self.known is None else identified(struct, self.known)
            self.known = version_of(own, int(at(number)), self.known, self.layout)
            self.history = extended(self.known, self.history)
            path = history_file(at(number), completed, self.layout)
            self.storage.put_if_absent(path, self.history.encode())
            extra[LATEST_SCHEMA_KEY] = render_version(self.known)
        metadata = CommitMetadata(
            operation, (stat,) if stat else (), extra, compacted=operation == "COMPACT"
        )
        instant = Instant(
            at(number), action, State.COMPLETED, completed if self.layout == 2 else None
        )
        self._put(instant, render_commit(metadata, self.layout))

    def _put(self, instant: Instant, data: bytes) -> None:
        folder = ".hoodie" if self.layout == 1 else ".hoodie/timeline"
        path = f"{folder}/{instant_file_name(instant, self.layout)}"
        self.storage.put_if_absent(path, data)
