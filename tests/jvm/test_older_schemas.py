"""Files that were written in an older schema of the table read as today's rows."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.jvm.fake_planner import FakePlanner, struct
from tests.jvm.reading import load, plan_text

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

NOW = {
    "id": "long",
    "small": "long",
    "real": "double",
    "whole": "double",
    "money": "decimal(12,2)",
    "text": "string",
    "added": "string",
    "place": {
        "type": "struct",
        "fields": [
            {"name": "x", "type": "long", "nullable": True, "metadata": {}},
            {"name": "y", "type": "string", "nullable": True, "metadata": {}},
        ],
    },
    "tags": {"type": "array", "elementType": "long", "containsNull": True},
}
THEN = {
    **{k: v for k, v in NOW.items() if k != "added"},
    "small": "integer",
    "real": "float",
    "whole": "integer",
    "money": "decimal(8,2)",
    "text": "integer",
    "place": {
        "type": "struct",
        "fields": [{"name": "x", "type": "integer", "nullable": True, "metadata": {}}],
    },
    "tags": {"type": "array", "elementType": "integer", "containsNull": True},
}


@pytest.fixture
def evolved(planner: FakePlanner, path: str) -> str:
    """Two files: one of an older schema with narrower types and fewer columns, one of today's."""
    planner.create(path, struct(THEN), [])  # type: ignore[arg-type]
    old = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "small": pa.array([10, None], pa.int32()),
            "real": pa.array([0.5, None], pa.float32()),
            "whole": pa.array([7, None], pa.int32()),
            "money": pa.array([Decimal("1.25"), None], pa.decimal128(8, 2)),
            "text": pa.array([42, None], pa.int32()),
            "place": pa.array([{"x": 5}, None], pa.struct([("x", pa.int32())])),
            "tags": pa.array([[1, None], None], pa.list_(pa.int32())),
        }
    )
    new = pa.table(
        {
            "id": pa.array([3], pa.int64()),
            "small": pa.array([5_000_000_000], pa.int64()),
            "real": pa.array([0.25], pa.float64()),
            "whole": pa.array([7.5], pa.float64()),
            "money": pa.array([Decimal("9999999999.99")], pa.decimal128(12, 2)),
            "text": pa.array(["forty"], pa.string()),
            "added": pa.array(["yes"], pa.string()),
            "place": pa.array(
                [{"x": 1, "y": "b"}], pa.struct([("x", pa.int64()), ("y", pa.string())])
            ),
            "tags": pa.array([[6]], pa.list_(pa.int64())),
        }
    )
    planner.add(path, old, THEN)  # type: ignore[arg-type]
    planner.add(path, new, NOW, schema=struct(NOW))  # type: ignore[arg-type]
    return path


EXPECTED = [
    (1, 10, 0.5, 7.0, Decimal("1.25"), "42", None, (5, None), [1, None]),
    (2, None, None, None, None, None, None, None, None),
    (3, 5_000_000_000, 0.25, 7.5, Decimal("9999999999.99"), "forty", "yes", (1, "b"), [6]),
]


def evolved_rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in frame.orderBy("id").collect()]


def test_added_columns_and_widened_types_read_right(spark: SparkSession, evolved: str) -> None:
    frame = load(spark, evolved)
    assert [
        tuple(tuple(v) if isinstance(v, tuple) else v for v in row) for row in evolved_rows(frame)
    ] == EXPECTED
    assert "ColumnarToRow" in plan_text(frame)


def test_widened_types_read_right_row_by_row_too(spark: SparkSession, evolved: str) -> None:
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        frame = load(spark, evolved)
        assert evolved_rows(frame.select("*", "_file"))[0][:-1] == EXPECTED[0]
        assert "ColumnarToRow" not in plan_text(frame)
        assert len(evolved_rows(frame)) == 3
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("small = 5000000000", [3]),
        ("small = 10", [1]),
        ("small <= 10", [1]),
        ("whole > 7.2", [3]),
        ("whole < 7.5D", [1]),
        ("text = '42'", [1]),
        ("added is null", [1, 2]),
        ("place.x = 5", [1]),
        ("money > 1.2", [1, 3]),
        ("money < 9999999999.00BD", [1]),
        ("real < 0.5000000001D", [1, 3]),
    ],
)
def test_filters_on_columns_of_both_schemas_find_their_rows(
    spark: SparkSession, evolved: str, condition: str, ids: list[int]
) -> None:
    found = load(spark, evolved).where(condition).select("id", "_file")
    assert sorted(row.id for row in found.collect()) == ids


def test_one_field_of_a_struct_is_read_from_both_schemas(spark: SparkSession, evolved: str) -> None:
    frame = load(spark, evolved).select("id", "place.y", "place.x").orderBy("id")
    assert [tuple(row) for row in frame.collect()] == [(1, None, 5), (2, None, None), (3, "b", 1)]


def test_many_batches_of_a_widened_column_keep_their_rows_apart(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    planner.create(path, struct({"n": "integer"}), [])
    n = 20_000
    table = pa.table({"n": pa.array([None if i % 7 == 0 else i for i in range(n)], pa.int32())})
    planner.add(path, table, {"n": "integer"}, row_group=6_000)
    planner.commit(path, [], schema=struct({"n": "long"}))
    frame = load(spark, path)
    assert frame.schema["n"].dataType.simpleString() == "bigint"
    kept = [row.n for row in frame.collect()]
    assert kept == [None if i % 7 == 0 else i for i in range(n)]
