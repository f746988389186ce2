"""A planner for the shim's tests: the bridge's protocol over plain Parquet files.

A table is a folder with ``fake.json``: its schema, its partitioning and a list of commits, each
with the files that are live after it. Nothing of Hudi's rules is here: what is tested is that the
JVM asks the right question, reads the files that it is told to and passes errors on.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import StructType

from pyhudi.application.last_commit import ChangedRows
from pyhudi.reads.conditions import Comparison
from pyhudi.spark.protocol import (
    QUESTIONS,
    Asked,
    CommitAnswer,
    Described,
    Failure,
    Made,
    ScanPlan,
)
from pyhudi.spark.stream_protocol import BatchEnd, BatchPlan, Begun
from pyhudi.spark.wire import decode, encode

META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]
LONG_PLAN = 500
NO_ROWS = ChangedRows(0, 0, 0)
#: parts of requests that the tests see as classes
DECODED = {"filters", "partition_filters", "runtime_filters", "changes"}


class FakeError(Exception):
    """An error of the planner; its class name and text must arrive in Spark."""


class TableNotFound(FakeError):
    pass


class TableExists(FakeError):
    pass


def local(path: str) -> Path:
    """The local path of Hadoop's text form, in which nothing is percent-encoded."""
    return Path(path.removeprefix("file:"))


def struct(fields: dict[str, str]) -> dict[str, Any]:
    """Spark's JSON of a flat schema: ``{"id": "long"}``."""
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in fields.items()
        ],
    }


class FakePlanner:
    """Answers the shim; ``calls`` lists every request in order, for the tests to look at.

    A request is both of its parts in one, as JSON but for its filters and changes of columns, which
    are decoded. Both sides are held to the protocol.
    """

    class Java:
        implements: ClassVar = ["io.pyhudi.Planner"]

    def __init__(self, spark: SparkSession, secret: str) -> None:
        self.spark = spark
        self.secret = secret
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.count_known = True
        #: answers that are given as they are, by question
        self.golden: dict[str, Any] = {}
        #: columns whose filters partitions decide
        self.decisive: set[str] = set()

    def call(self, secret: str, method: str, text: str) -> str:
        return self._answer(secret, method, text, ())

    def callWith(self, secret: str, method: str, frame: Any, text: str) -> str:  # noqa: N802
        return self._answer(secret, method, text, (DataFrame(frame, self.spark),))

    def _answer(self, secret: str, method: str, text: str, extra: tuple[Any, ...]) -> str:
        question, parts = QUESTIONS[method], json.loads(text)
        request = {**parts["place"], **parts["ask"]}
        self.calls.append((method, request))
        try:
            asked = decode(Asked, parts, method)
            ask: Any = decode(question.ask, asked.ask, method)
            request |= {name: getattr(ask, name) for name in DECODED & parts["ask"].keys()}
            if secret != self.secret:
                raise FakeError("[FAKE_ERROR] wrong secret")
            if method in self.golden:
                return encode({"ok": self.golden[method]})
            answer = getattr(self, f"on_{method}")(request, *extra)
            decode(question.answer, json.loads(encode(answer)), method)
            return encode({"ok": answer})
        except Exception as error:
            return encode({"error": Failure(type(error).__name__, str(error), None)})

    def named(self, method: str) -> list[dict[str, Any]]:
        return [request for name, request in self.calls if name == method]

    # -- the table, as the tests make it

    def load(self, path: str) -> dict[str, Any]:
        file = local(path) / "fake.json"
        if not file.exists():
            raise TableNotFound(f"[TABLE_NOT_FOUND] there is no table at {path}: write one first.")
        return json.loads(file.read_text())

    def save(self, path: str, table: dict[str, Any]) -> None:
        local(path).mkdir(parents=True, exist_ok=True)
        (local(path) / "fake.json").write_text(json.dumps(table))

    def create(self, path: str, schema: dict[str, Any], partitioning: list[str]) -> None:
        self.save(path, {"schema": schema, "partitioning": partitioning, "commits": []})

    def commit(
        self,
        path: str,
        files: list[dict[str, Any]],
        *,
        replace: bool = False,
        schema: dict[str, Any] | None = None,
    ) -> str:
        """Publishes ``files`` (path, rows, physical schema); returns the instant."""
        table = self.load(path)
        before = table["commits"][-1]["files"] if table["commits"] and not replace else []
        instant = f"{len(table['commits']) + 1:017d}"
        schema = schema or table["schema"]
        table["commits"].append({"instant": instant, "files": before + files, "schema": schema})
        table["schema"] = schema
        self.save(path, table)
        return instant

    def add(self, path: str, rows: pa.Table, fields: dict[str, str], **commit: Any) -> str:
        """Writes one Parquet file with meta columns and commits it."""
        number = len(self.load(path)["commits"])
        name = f"part-{number}.parquet"
        size = rows.num_rows
        meta = [
            [f"{number:017d}"] * size,
            [f"{number}_{i}" for i in range(size)],
            [str(value) for value in rows.column(0).to_pylist()],
            [""] * size,
            [name] * size,
        ]
        for place, (column, values) in enumerate(zip(META, meta, strict=True)):
            rows = rows.add_column(place, column, pa.array(values, pa.string()))
        pq.write_table(rows, local(path) / name, row_group_size=commit.pop("row_group", 1 << 20))
        physical = struct({**dict.fromkeys(META, "string"), **fields})
        file = {"path": str(local(path) / name), "rows": size, "schema": physical}
        return self.commit(path, [file], **commit)

    def snapshot(self, path: str, instant: str | None) -> dict[str, Any]:
        table = self.load(path)
        commits = [c for c in table["commits"] if instant is None or c["instant"] <= instant]
        empty = {"instant": None, "files": [], "schema": table["schema"]}
        return {**table, **(commits[-1] if commits else empty)}

    # -- the protocol

    def on_exists(self, request: dict[str, Any]) -> bool:
        return (local(request["path"]) / "fake.json").exists()

    def on_same_tables(self, request: dict[str, Any]) -> list[bool]:
        return [local(other) == local(request["path"]) for other in request["others"]]

    def on_describe(self, request: dict[str, Any]) -> Described:
        asked = request["as_of"] or request["options"].get("as.of.instant")
        if request["as_of_micros"] is not None:
            asked = f"{request['as_of_micros']:017d}"
        state = self.snapshot(request["path"], asked)
        changes = "changes" in request["options"]
        return Described(
            schema=struct({"op": "string", "after": "string"}) if changes else state["schema"],
            partitioning=tuple(state["partitioning"]),
            partition_columns=tuple(state["partitioning"]),
            properties={"hoodie.table.type": "COPY_ON_WRITE"},
            pin=f"pin of {state['instant']}",
            instant=state["instant"],
            meta_fields=True,
            runtime_filters=(),
            travels=False,
            rows=None,
            logged=False,
            changes=changes,
            follows=False,
        )

    def on_read_changes(self, request: dict[str, Any], holder: DataFrame) -> None:
        """One change, in the columns that are asked for."""
        names = [field["name"] for field in request["schema"]["fields"]]
        row = {"op": "i", "after": "{}"}
        frame = self.spark.createDataFrame([tuple(row[n] for n in names)], names)
        holder._jdf.take(frame._jdf)

    def on_begin_stream(self, request: dict[str, Any]) -> Begun:
        return Begun("begin", True, "2")

    def on_next_batch(self, request: dict[str, Any]) -> BatchEnd:
        """Two batches, the places 1 and 2."""
        end = "1" if request["start"] == "begin" else "2"
        return BatchEnd(end, "2", {"backlogCommits": "0"})

    def on_plan_batch(self, request: dict[str, Any], holder: DataFrame) -> BatchPlan:
        return BatchPlan(None, None, False)

    def on_read_up_to(self, request: dict[str, Any]) -> None:
        pass

    def on_end_stream(self, request: dict[str, Any]) -> None:
        pass

    def on_discard_table(self, request: dict[str, Any]) -> bool:
        shutil.rmtree(local(request["made"]))
        return True

    def on_holds_locks_alone(self, request: dict[str, Any]) -> bool:
        return False

    def on_drop_table(self, request: dict[str, Any]) -> bool:
        found = self.on_exists(request)
        if found:
            shutil.rmtree(local(request["path"]))
        return found

    def on_decide(self, request: dict[str, Any]) -> list[bool]:
        return [getattr(f, "column", None) in self.decisive for f in request["filters"]]

    def on_plan_scan(self, request: dict[str, Any]) -> ScanPlan:
        if request["instant"] is None:
            return ScanPlan((), 0, files=())
        schemas: list[dict[str, Any]] = []
        rows = []
        for file in self.snapshot(request["path"], request["instant"])["files"]:
            if file["schema"] not in schemas:
                schemas.append(file["schema"])
            index = schemas.index(file["schema"])
            rows.append([file["path"], Path(file["path"]).stat().st_size, file["rows"], index])
        if len(rows) <= LONG_PLAN:
            return ScanPlan(tuple(schemas), 0, files=tuple(tuple(row) for row in rows))
        kinds = [pa.string(), pa.int64(), pa.int64(), pa.int32()]
        columns = [
            pa.array(column, kind)
            for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)
        ]
        columns.append(pa.nulls(len(rows), pa.binary()))
        batch = pa.record_batch(columns, names=["path", "size", "rows", "schema", "masked"])
        with (
            tempfile.NamedTemporaryFile(delete=False) as out,
            pa.ipc.new_stream(out, batch.schema) as stream,
        ):
            stream.write_batch(batch)
        return ScanPlan(tuple(schemas), 0, arrow_file=out.name)

    def on_count(self, request: dict[str, Any]) -> int | None:
        if request["filters"] or not self.count_known:
            return None
        files = self.snapshot(request["path"], request["instant"])["files"]
        return sum(file["rows"] for file in files)

    def on_write(self, request: dict[str, Any], frame: DataFrame) -> CommitAnswer:
        path, mode = request["path"], request["mode"]
        exists = self.on_exists(request)
        if exists and mode == "error":
            raise TableExists(f"[TABLE_EXISTS] there is a table at {path}: choose another mode.")
        if exists and mode == "ignore":
            return CommitAnswer(None, None, NO_ROWS)
        if not exists:
            self.create(path, json.loads(frame.schema.json()), request["partitioning"])
        return CommitAnswer(self._store(path, frame, replace=mode == "overwrite"), None, NO_ROWS)

    def on_create_table(self, request: dict[str, Any]) -> Made:
        path = request["path"]
        adopted = self.on_exists(request)
        if not adopted and not request["schema"]["fields"]:
            raise FakeError(f"[FAKE_ERROR] there is no table at {path}: name its columns.")
        if not adopted:
            self.create(path, request["schema"], request["partitioning"])
        if adopted and not request["adopt"]:
            raise TableExists(f"[TABLE_EXISTS] there is a table at {path}.")
        table = self.load(path)
        return Made(table["schema"], tuple(table["partitioning"]), None if adopted else path)

    def on_insert(self, request: dict[str, Any], frame: DataFrame) -> CommitAnswer:
        path, overwrite = request["path"], request["overwrite"]
        if request["options"].get("fail"):
            raise FakeError("[FAKE_ERROR] the insert failed as it was told to.")
        if overwrite == "filter":
            frame = self._rows_without(path, request["filters"]).unionByName(frame)
        return CommitAnswer(self._store(path, frame, replace=overwrite != "none"), None, NO_ROWS)

    def _rows_without(self, path: str, filters: tuple[Any, ...]) -> DataFrame:
        frame = self.spark.read.format("pyhudi").load(path)
        doomed = functions.lit(True)
        for each in filters:
            doomed &= frame[each.column].eqNullSafe(each.value.value)
        return frame.where(~doomed)

    def on_truncate_table(self, request: dict[str, Any]) -> CommitAnswer:
        return CommitAnswer(self.commit(request["path"], [], replace=True), None, NO_ROWS)

    def on_can_delete_where(self, request: dict[str, Any]) -> bool:
        partitioning = self.load(request["path"])["partitioning"]
        equal = [f for f in request["filters"] if getattr(f, "by", None) is Comparison.EQUAL]
        return len(equal) == len(request["filters"]) and all(
            f.column in partitioning for f in equal
        )

    def on_delete_where(self, request: dict[str, Any]) -> CommitAnswer:
        path = request["path"]
        left = self._rows_without(path, request["filters"])
        return CommitAnswer(self._store(path, left, replace=True), None, NO_ROWS)

    def on_check_properties(self, request: dict[str, Any]) -> None:
        """Every property may be set."""

    def on_alter_columns(self, request: dict[str, Any]) -> CommitAnswer:
        return CommitAnswer(self.commit(request["path"], [], replace=False), None, NO_ROWS)

    def on_check_row_changes(self, request: dict[str, Any]) -> None:
        self.load(request["path"])

    def on_insert_new(self, request: dict[str, Any], frame: DataFrame) -> CommitAnswer:
        return CommitAnswer(self._store(request["path"], frame, replace=False), None, NO_ROWS)

    def on_spool_begin(self, request: dict[str, Any]) -> str:
        folder = local(request["path"]) / ".spool"
        folder.mkdir(exist_ok=True)
        return f"file:{folder}"

    def on_insert_spooled(self, request: dict[str, Any]) -> CommitAnswer:
        path = request["path"]
        if request["options"].get("fail"):
            raise FakeError("[FAKE_ERROR] the insert failed as it was told to.")
        schema = StructType.fromJson(request["schema"])
        frame = self.spark.createDataFrame([], schema)
        if request["files"]:
            frame = self.spark.read.schema(schema).parquet(*request["files"])
        table = self.load(path)
        touched = [row.asDict() for row in frame.select(table["partitioning"]).distinct().collect()]
        left = self.spark.read.format("pyhudi").load(path)
        for values in touched:
            doomed = functions.lit(True)
            for column, value in values.items():
                doomed &= left[column].eqNullSafe(value)
            left = left.where(~doomed)
        return CommitAnswer(self._store(path, left.unionByName(frame), replace=True), None, NO_ROWS)

    def on_spool_abort(self, request: dict[str, Any]) -> None:
        shutil.rmtree(local(request["spool"]))

    def _store(self, path: str, frame: DataFrame, *, replace: bool) -> str:
        """Runs a Spark job from inside the call, as the real planner does, and commits."""
        staging = tempfile.mkdtemp()
        frame.coalesce(1).write.mode("overwrite").parquet(staging)
        number = len(self.load(path)["commits"])
        files = []
        for part, source in enumerate(sorted(Path(staging).glob("*.parquet"))):
            target = local(path) / f"data-{number}-{part}.parquet"
            shutil.move(source, target)
            schema = json.loads(frame.schema.json())
            rows = pq.read_metadata(target).num_rows
            files.append({"path": str(target), "rows": rows, "schema": schema})
        shutil.rmtree(staging)
        return self.commit(path, files, replace=replace)
