from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from pyhudi.errors import TableCorrupt
from pyhudi.format.records import avro_name, from_record, to_record


@dataclass(frozen=True, slots=True)
class Inner:
    some_text: str


@dataclass(frozen=True, slots=True)
class Outer:
    long_name: str
    inner: Inner | None
    many: tuple[Inner, ...]
    by_key: Mapping[str, int]
    named: int | None = avro_name("Other", None)


FULL = Outer("x", Inner("y"), (Inner("z"),), {"k": 1}, 7)
RECORD = {
    "longName": "x",
    "inner": {"someText": "y"},
    "many": [{"someText": "z"}],
    "byKey": {"k": 1},
    "Other": 7,
}


def test_names_follow_from_fields_unless_given() -> None:
    assert to_record(FULL) == RECORD
    assert from_record(Outer, RECORD, "p") == FULL


def test_absent_and_null_values_become_empty_or_none() -> None:
    assert from_record(Outer, {"many": None, "unknown": 1}, "p") == Outer("", None, (), {}, None)


@pytest.mark.parametrize(
    "record", [{"longName": 1}, {"inner": "text"}, {"many": 3}, {"byKey": {"k": "1"}}]
)
def test_a_value_of_another_kind_names_the_file(record: dict[str, object]) -> None:
    with pytest.raises(TableCorrupt, match="the file holds a Outer") as error:
        from_record(Outer, record, "T.clean")
    assert error.value.facts["path"] == "T.clean"
