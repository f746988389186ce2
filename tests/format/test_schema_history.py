"""Schema versions: the texts of Apache Hudi's own histories, and what they say of columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyhudi.errors import TableCorrupt
from pyhudi.format.column_ids import (
    FILE_NAME,
    all_ids,
    first_ids,
    held_columns,
    identified,
    names_in_file,
    plain,
    version_of,
    with_new_ids,
)
from pyhudi.format.commit_metadata import parse_commit
from pyhudi.format.instants import InstantTime
from pyhudi.format.schema_history import (
    LATEST_SCHEMA_KEY,
    SchemaVersion,
    history_time,
    parse_history,
    parse_version,
    render_history,
    render_version,
    version_at,
)
from pyhudi.format.spark_schema import SparkSchema
from tests import golden_tables

EVOLVED = [t for t in golden_tables.ALL if t.table == "cow_evolve"]

#: what the converter of Apache Hudi 1.2.0 makes of ``EVERY_TYPE`` with meta columns before it
BY_HUDI_1_2 = (
    '{"id":5,"name":"k","optional":false,"type":"long"},'
    '{"id":6,"name":"n","optional":true,"type":"local-timestamp-micros"},'
    '{"id":7,"name":"d","optional":true,"type":"decimal_fixed(9, 2)[4]"},'
    '{"id":8,"name":"s","optional":true,"type":{"type":"record","fields":['
    '{"id":11,"name":"x","optional":true,"type":"int"},'
    '{"id":12,"name":"y","optional":true,"type":{"type":"record","fields":['
    '{"id":13,"name":"z","optional":true,"type":"string"}]}}]}},'
    '{"id":9,"name":"a","optional":true,"type":{"type":"array","element_id":14,"element":'
    '{"type":"record","fields":[{"id":15,"name":"p","optional":true,"type":"int"},'
    '{"id":16,"name":"q","optional":false,"type":"string"}]},"element_optional":true}},'
    '{"id":10,"name":"m","optional":true,"type":{"type":"map","key_id":17,"key":"string",'
    '"value_id":18,"value":{"type":"array","element_id":19,"element":"string",'
    '"element_optional":true},"value_optional":true}}]}'
)
#: what version 0.15.0 has another name for; it has none for a time without a zone, nor reads one
BY_HUDI_0_15 = {'"decimal_fixed(9, 2)[4]"': '"decimal(9, 2)"'}


def field(name: str, kind: Any, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {}}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def table(*fields: dict[str, Any]) -> SparkSchema:
    return SparkSchema.parse(struct(*fields))


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapped(value: Any) -> dict[str, Any]:
    kinds = {"keyType": "string", "valueType": value, "valueContainsNull": True}
    return {"type": "map", **kinds}


EVERY_TYPE = struct(
    field("k", "long", False), field("n", "timestamp_ntz"), field("d", "decimal(9,2)"),
    field("s", struct(field("x", "integer"), field("y", struct(field("z", "string"))))),
    field("a", array(struct(field("p", "integer"), field("q", "string", False)))),
    field("m", mapped(array("string"))),
)  # fmt: skip


@pytest.mark.parametrize("table", EVOLVED, ids=lambda t: t.name)
def test_a_history_of_hudi_is_written_as_it_was_read(table: golden_tables.GoldenTable) -> None:
    files = {name: data for name, data in table.files().items() if "/.schema/" in name}
    saved = {
        name: data.decode() for name, data in files.items() if history_time(name.rpartition("/")[2])
    }

    assert len(saved) == len(files) / 3, "the others are requested or inflight, and empty"
    for name, text in saved.items():
        versions = parse_history(text, name)
        assert render_history(versions) == text
        assert version_at(versions, InstantTime("0" * 17)) == versions[-1]
        assert version_at(versions, InstantTime("9" * 17)) == versions[0]


@pytest.mark.parametrize("table", EVOLVED, ids=lambda t: t.name)
def test_a_commit_of_hudi_says_the_same_by_ids_as_by_its_schema(
    table: golden_tables.GoldenTable,
) -> None:
    seen = 0
    for name, data in table.files().items():
        extra = parse_commit(data, name).extra if name.endswith(".commit") else {}
        text = extra.get(LATEST_SCHEMA_KEY)
        if text is None:
            continue
        seen += 1
        version = parse_version(text, name)
        assert render_version(version) == text
        columns = identified(SparkSchema.of_avro(json.loads(extra["schema"])), version)
        layout = 1 if table.version == 6 else 2
        assert version_of(columns, version.version_id, version, layout) == version
    assert seen >= 5


@pytest.mark.parametrize("layout", [1, 2])
def test_a_first_version_has_the_ids_and_types_that_hudi_gives(layout: int) -> None:
    expected = BY_HUDI_1_2
    for new, old in BY_HUDI_0_15.items() if layout == 1 else ():
        expected = expected.replace(new, old)

    every = SparkSchema.parse(EVERY_TYPE)
    found = version_of(first_ids(every), 0, None, layout)

    text = render_version(found)
    assert text.startswith('{"max_column_id":19,"version_id":0,"type":"record","fields":[')
    assert '{"id":4,"name":"_hoodie_file_name","optional":true,"type":"string","doc":""}' in text
    assert text.endswith(expected)
    assert plain(identified(every, parse_version(text, "t"))) == every


def test_names_that_a_version_lacks_get_new_ids() -> None:
    version = version_of(first_ids(table(field("a", "long"), field("b", "long"))), 0, None, 2)
    dropped = SchemaVersion(7, version.max_column_id, version.fields[:-1])

    later = identified(table(field("b", array("long")), field("A", "long")), dropped)

    assert [f["metadata"]["id"] for f in later["fields"][5:]] == [7, 5]
    assert sorted(all_ids(later)) == [0, 1, 2, 3, 4, 5, 7, 8]
    assert version_of(later, 9, dropped, 2).max_column_id == 8
    added = with_new_ids(struct(field("x", mapped("long")), field("y", "long")), 9)
    assert sorted(all_ids(added)) == [9, 10, 11, 12]


def test_a_file_is_asked_for_by_its_own_names() -> None:
    file = first_ids(
        table(field("a", "integer"), field("b", struct(field("x", "long"), field("y", "long"))))
    )
    later = json.loads(json.dumps(file))
    a, b = later["fields"][5:]
    a.update(name="b", type="long")
    b["name"] = "c"
    b["type"]["fields"][0].update(name="y", metadata={"id": 20})
    b["type"]["fields"][1]["name"] = "z"
    new = {**field("new", "long"), "metadata": {"id": 21}}
    again = {**field("a", "double"), "metadata": {"id": 22}}
    later["fields"] = [*later["fields"][:5], b, a, new, again]

    held = held_columns(later, file)

    assert [(c.name, c.metadata.get(FILE_NAME)) for c in held.columns] == [
        ("c", "b"), ("b", "a"), ("new", None), ("a", "a_"),
    ]  # fmt: skip
    inner = [(f["name"], f["metadata"].get(FILE_NAME)) for f in held.columns[0].type["fields"]]
    assert inner == [("y", "y_"), ("z", "y")]
    assert held.columns[1].type == "integer", "files keep their types"
    assert names_in_file(held) == {
        "c": ("b", {"y": ("y_", None), "z": ("y", None)}), "b": ("a", None), "a": ("a_", None),
    }  # fmt: skip
    assert names_in_file(held_columns(file, file)) is None


def test_what_is_inside_of_lists_and_maps_has_its_own_names() -> None:
    file = first_ids(table(field("l", array(struct(field("x", "long"))))))
    later = json.loads(json.dumps(file))
    later["fields"][5]["type"]["elementType"]["fields"][0]["name"] = "y"

    names = names_in_file(held_columns(later, file))

    assert names == {"l": ("l", {"element": ("element", {"y": ("x", None)})})}


ONE = '{"schemas":[{"version_id":0,"max_column_id":1,"fields":[%s]}]}'


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"schemas":[]}',
        '{"schemas":[{"version_id":0,"fields":[]}]}',
        ONE % '{"id":1,"name":"a"}',
        ONE % '{"id":1,"name":"a","optional":true,"type":{"type":"array","element":"int"}}',
    ],
)
def test_a_history_that_is_none_is_named(text: str) -> None:
    with pytest.raises(TableCorrupt, match="schema history") as found:
        parse_history(text, "t/.hoodie/.schema/1.schemacommit")
    assert found.value.facts["path"] == "t/.hoodie/.schema/1.schemacommit"
