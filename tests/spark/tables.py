"""Tables by path and what the tests of this folder say about them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions

DS = "hoodie.datasource.write."
KEY, PARTITION, ORDERING = (
    DS + "recordkey.field",
    DS + "partitionpath.field",
    DS + "precombine.field",
)
OPERATION, DELETED = DS + "operation", "_hoodie_is_deleted"
HIVE_STYLE, URL_ENCODE = DS + "hive_style_partitioning", DS + "partitionpath.urlencode"
VERSION, INDEX = "hoodie.write.table.version", "hoodie.index.type"
TYPE = DS + "table.type"
MISSING = "hoodie.write.set.null.for.missing.columns"

#: the ways of a grouped write: rows collected to the driver, and rows shuffled by Spark
WAYS = ("collected", "distributed")

#: the plain table of most tests: key, payload, ordering value, partition
DDL = "id long, name string, ts long, dt string"
OPTIONS = {KEY: "id", PARTITION: "dt", ORDERING: "ts"}

ZONE = "spark.sql.session.timeZone"

Row = tuple[Any, ...]
Model = dict[int, Row]


@contextmanager
def settings(spark: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings while the block lasts."""
    before = {key: spark.conf.get(key, None) for key in given}
    for key, value in given.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


class HudiTable:
    """A table at a path: written with the options that made it, read as a dict by ``id``."""

    def __init__(self, spark: SparkSession, path: str, options: Mapping[str, str], ddl: str):
        self.spark, self.path, self.options, self.ddl = spark, path, dict(options), ddl

    def frame(self, rows: Iterable[Row], ddl: str | None = None) -> DataFrame:
        return self.spark.createDataFrame(list(rows), ddl or self.ddl).coalesce(1)

    def write(
        self,
        rows: Iterable[Row] | DataFrame,
        operation: str | None = None,
        mode: str = "append",
        **more: str,
    ) -> None:
        """Save rows; ``more`` are options with dots as double underscores."""
        df = rows if isinstance(rows, DataFrame) else self.frame(rows)
        options = {**self.options, **{k.replace("__", "."): v for k, v in more.items()}}
        if operation is not None:
            options[OPERATION] = operation
        df.write.format("pyhudi").options(**options).mode(mode).save(self.path)

    def df(self, **options: str) -> DataFrame:
        named = {k.replace("__", "."): v for k, v in options.items()}
        return self.spark.read.format("pyhudi").options(**named).load(self.path)

    def rows(self, **options: str) -> Model:
        """Rows by their first column; a key that occurs twice fails the test."""
        found = [tuple(row) for row in self.df(**options).collect()]
        by_key = {row[0]: row for row in found}
        assert len(by_key) == len(found), f"a key occurs twice: {sorted(map(repr, found))}"
        return by_key

    def instants(self) -> list[str]:
        """Requested times of completed commits, oldest first."""
        root = Path(self.path) / ".hoodie"
        folder = root / "timeline" if (root / "timeline").is_dir() else root
        ends = (".commit", ".deltacommit", ".replacecommit")
        return sorted(
            f.name.split("_")[0].split(".")[0] for f in folder.iterdir() if f.suffix in ends
        )

    def base_files(self) -> list[str]:
        """Paths of all base files on disk, superseded ones included."""
        root = Path(self.path)
        return sorted(str(f.relative_to(root)) for f in root.rglob("*.parquet"))

    def properties(self) -> dict[str, str]:
        text = (Path(self.path) / ".hoodie" / "hoodie.properties").read_text("latin-1")
        lines = (x for x in text.splitlines() if "=" in x and not x.startswith("#"))
        return dict(x.split("=", 1) for x in lines)

    def change_property(self, key: str, value: str) -> None:
        """Set a property of the table as another engine might have."""
        path = Path(self.path) / ".hoodie" / "hoodie.properties"
        kept = [x for x in path.read_text("latin-1").splitlines() if not x.startswith(key + "=")]
        path.write_text("\n".join([*kept, f"{key}={value}", ""]), "latin-1")


class Lake:
    """Makes tables below one folder."""

    def __init__(self, spark: SparkSession, folder: Path):
        self.spark, self.folder = spark, folder

    def table(
        self, name: str = "t", options: Mapping[str, str] = OPTIONS, ddl: str = DDL, **more: str
    ) -> HudiTable:
        named = {k.replace("__", "."): v for k, v in more.items()}
        return HudiTable(self.spark, str(self.folder / name), {**options, **named}, ddl)


def listing(folder: str | Path) -> dict[str, tuple[int, int]]:
    """Every file and folder below ``folder`` with size and time of change."""
    root = Path(folder)
    if not root.exists():
        return {}
    return {
        str(p.relative_to(root)): (
            p.stat().st_size if p.is_file() else 0,
            p.stat().st_mtime_ns if p.is_file() else 0,
        )
        for p in root.rglob("*")
    }


class refused:  # noqa: N801 - reads as a statement
    """The body fails with an error of this class, and nothing below ``folder`` is changed."""

    def __init__(self, code: str, folder: str | Path, *words: str):
        self._code, self._folder, self._words = code, folder, words
        self.message = ""

    def __enter__(self) -> refused:
        self._before = listing(self._folder)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        assert error is not None, f"nothing was raised, [{self._code}] was expected"
        if not isinstance(error, AnalysisException):
            return False
        self.message = str(error)
        assert self.message.startswith(f"[{self._code}] "), self.message
        for word in self._words:
            assert word in self.message, f"'{word}' is not in: {self.message}"
        assert listing(self._folder) == self._before, "something on disk was changed"
        return True


def readable(instant: str) -> str:
    """An instant time in UTC as SQL writes it."""
    at = dt.datetime.strptime(instant + "000", "%Y%m%d%H%M%S%f")
    return at.isoformat(" ", "milliseconds")


def rows_of(lo: int, hi: int, name: str, ts: int = 1) -> list[Row]:
    """Rows of the plain table, spread over three partitions."""
    return [(i, f"{name}{i}", ts, f"2024-01-0{i % 3 + 1}") for i in range(lo, hi)]


def model_of(rows: Iterable[Row]) -> Model:
    return {row[0]: row for row in rows}


def as_json(df: DataFrame) -> list[dict[str, Any]]:
    """Rows as the expected files of the golden tables hold them."""
    texts = df.select(functions.to_json(functions.struct("*"))).collect()
    return [json.loads(text) for (text,) in texts]
