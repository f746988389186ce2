"""Fields of structs that a batch brings or lacks follow the same rules as columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from pyhudi.errors import SchemaConflict
from tests.spark.tables import KEY, MISSING, HudiTable, Lake

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

#: the type of the column and its value, by those of the struct inside
AROUND: dict[str, tuple[str, Callable[[object], object]]] = {
    "a struct": ("{}", lambda value: value),
    "a list of structs": ("array<{}>", lambda value: [value]),
    "a map in a struct": ("struct<m:map<string,{}>>", lambda value: {"m": {"k": value}}),
}


@dataclass
class Nested:
    """A table whose column ``s`` has structs somewhere inside."""

    table: HudiTable
    kind: str
    around: Callable[[object], object]

    def write(self, key: int, fields: str, *values: object, **options: str) -> None:
        """Upserts a row whose struct has ``fields``, such as ``x:int``."""
        names = [field.split(":")[0] for field in fields.split(",")]
        value = self.around(dict(zip(names, values, strict=True)))
        schema = f"id bigint, s {self.kind.format(f'struct<{fields}>')}"
        rows = self.table.spark.createDataFrame([(key, value)], schema)
        options = {KEY: "id", **options}
        rows.write.format("pyhudi").mode("append").options(**options).save(self.table.path)

    def rows(self) -> dict[int, dict[str, object]]:
        """Key -> the struct."""
        found = {}
        for row in self.table.df().collect():
            value = row.asDict(recursive=True)["s"]
            while not isinstance(value, dict) or "x" not in value:
                value = value[0] if isinstance(value, list) else next(iter(value.values()))
            found[row["id"]] = value
        return found


@pytest.fixture(params=AROUND)
def nested(request: pytest.FixtureRequest, lake: Lake) -> Nested:
    return Nested(lake.table(), *AROUND[request.param])


@pytest.mark.parametrize("way", ["collected", "distributed"], indirect=True)
def test_a_new_field_is_added_last_and_is_null_in_older_rows(nested: Nested, way: str) -> None:
    nested.write(1, "x:int,y:string", 1, "a")
    nested.write(2, "z:double,Y:string,X:int", 2.5, "b", 2)
    after = nested.kind.format("struct<x:int,y:string,z:double>")
    assert nested.table.df().schema["s"].dataType.simpleString() == after
    assert nested.rows() == {1: {"x": 1, "y": "a", "z": None}, 2: {"x": 2, "y": "b", "z": 2.5}}
    nested.write(1, "x:int,y:string,z:double", 3, "c", 3.5)
    assert nested.rows() == {1: {"x": 3, "y": "c", "z": 3.5}, 2: {"x": 2, "y": "b", "z": 2.5}}


def test_a_missing_field_is_refused_unless_nulls_are_asked_for(nested: Nested) -> None:
    nested.write(1, "x:int,y:string", 1, "a")
    with pytest.raises(SchemaConflict, match=rf"y' of the table is missing .* {MISSING}=true"):
        nested.write(2, "x:int", 2)
    assert len(nested.table.instants()) == 1
    nested.write(2, "x:int", 2, **{MISSING: "true"})
    nested.write(3, "z:int,x:int", 1, 3, **{MISSING: "true"})
    assert nested.rows() == {
        1: {"x": 1, "y": "a", "z": None},
        2: {"x": 2, "y": None, "z": None},
        3: {"x": 3, "y": None, "z": 1},
    }


def test_a_struct_that_is_null_stays_null(lake: Lake) -> None:
    table = lake.table()
    for rows in (
        "select 1L id, named_struct('x', 1) s union all select 2L, null",
        "select 3L id, named_struct('x', 3, 'y', 3) s union all select 4L, null",
    ):
        frame = table.spark.sql(rows)
        frame.write.format("pyhudi").mode("append").option(KEY, "id").save(table.path)
    rows = table.df().selectExpr("id", "s is null", "s.x").collect()
    assert sorted(map(tuple, rows)) == [
        (1, False, 1),
        (2, True, None),
        (3, False, 3),
        (4, True, None),
    ]
