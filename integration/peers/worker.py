"""The child side of ``SparkPeer``: ``python -m integration.peers.worker FORMAT CONF-JSON``."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

import pyhudi
from integration.peers.canonical import canonical_map, plain, sort_rows
from integration.peers.process import claim_stdout, serve
from tests.sessions import remember_names
from tests.sql_suite import texts_of


class Worker:
    """The methods that the parent may call; all arguments and answers are JSON."""

    def __init__(self, format_name: str, spark: SparkSession) -> None:
        self.format = format_name
        self.spark = spark

    def read(self, path: str, options: dict[str, str]) -> dict[str, Any]:
        """All rows of the table, meta columns included; change data has none."""
        frame = self.spark.read.format(self.format).options(**options).load(path)
        if self.format == "pyhudi" and "before" not in frame.columns:
            frame = frame.select(*META, "*")
        return rows_of(frame)

    def ask(
        self, path: str, options: dict[str, str], questions: list[list[Any]]
    ) -> list[dict[str, Any] | int]:
        """Rows or their number: a question is a condition, columns, and whether to count."""
        frame = self.spark.read.format(self.format).options(**options).load(path)
        answers: list[dict[str, Any] | int] = []
        for condition, columns, counts in questions:
            asked = frame.where(condition) if condition else frame
            if counts:
                answers.append(asked.count())
            else:
                answers.append(rows_of(asked.select(*columns)))
        return answers

    def write(self, path: str, parquet: str, options: dict[str, str], mode: str) -> None:
        """Write the rows of a Parquet file to the table."""
        frame = self.spark.read.parquet(parquet)
        frame.write.format(self.format).options(**options).mode(mode).save(path)

    def follow(
        self, path: str, checkpoint: str, options: dict[str, str]
    ) -> list[list[dict[str, Any]]]:
        """The batches of a stream until it has read what there is; texts of images as objects."""
        batches: list[list[dict[str, Any]]] = []
        frame = self.spark.readStream.format(self.format).options(**options).load(path)
        bare = frame.drop(*META)

        def keep(batch: DataFrame, number: int) -> None:
            batches.append([_change(json.loads(text)) for text in batch.toJSON().collect()])

        writing = bare.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
        writing.trigger(availableNow=True).start().awaitTermination()
        return batches

    def stream(
        self, path: str, source: str, schema: str, checkpoint: str, options: dict[str, str]
    ) -> str:
        """Stream the JSON files of a folder, one a batch, until all are in; the query's id."""
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        writer = reader.json(source).writeStream.format(self.format).options(**options)
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query = writer.start(path)
        query.awaitTermination()
        return str(query.id)

    def stream_by_name(
        self, name: str, source: str, schema: str, checkpoint: str, options: dict[str, str],
        partitions: list[str],
    ) -> str:  # fmt: skip
        """The same into the table of a name, which is made if it is not there."""
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        writer = reader.json(source).writeStream.format(self.format).options(**options)
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query = writer.partitionBy(*partitions).toTable(name)
        query.awaitTermination()
        return str(query.id)

    def sql(self, statement: str) -> dict[str, Any]:
        """Run a statement and take its rows."""
        return rows_of(self.spark.sql(statement))

    def texts(self, statement: str) -> list[list[str]]:
        """Run a statement and take its rows in order, each value as a text."""
        return texts_of(self.spark.sql(statement).collect())


META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]


def rows_of(frame: DataFrame) -> dict[str, Any]:
    """Schema and canonical rows of a frame."""
    schema = [[field.name, field.dataType.simpleString()] for field in frame.schema]
    rows = [_value(row) for row in frame.collect()]
    return {"schema": schema, "rows": sort_rows(rows)}


def _value(value: Any) -> Any:
    # PySpark collects a struct as Row and a map as dict, which PyArrow uses for structs.
    if isinstance(value, Row):
        return {name: _value(part) for name, part in zip(value.__fields__, value, strict=True)}
    if isinstance(value, dict):
        return canonical_map((_value(k), _value(v)) for k, v in value.items())
    if isinstance(value, list):
        return [_value(part) for part in value]
    return plain(value)


def _change(row: dict[str, Any]) -> dict[str, Any]:
    """A row, of which images are JSON texts."""
    return {
        name: json.loads(value) if name in ("before", "after") and value else value
        for name, value in row.items()
    }


def session(format_name: str, conf: dict[str, str]) -> SparkSession:
    """A Spark session for the format; pyhudi's is set up as its users set it up."""
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    if format_name == "pyhudi":
        builder = pyhudi.configure(builder)
    spark = builder.getOrCreate()
    if format_name == "pyhudi":
        pyhudi.attach(spark)
    spark.sparkContext.setLogLevel("ERROR")
    remember_names(spark)
    return spark


def main() -> None:
    """Start the session and serve until stdin ends."""
    answers = claim_stdout()
    format_name, conf = sys.argv[1], json.loads(sys.argv[2])
    worker = Worker(format_name, session(format_name, conf))
    methods = (
        worker.read, worker.ask, worker.write, worker.stream, worker.stream_by_name, worker.follow,
        worker.sql, worker.texts,
    )  # fmt: skip
    serve(answers, {method.__name__: method for method in methods})


if __name__ == "__main__":
    main()
