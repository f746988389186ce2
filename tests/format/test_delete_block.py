"""Delete blocks against bytes that a library for Avro wrote by Apache Hudi's schema."""

from __future__ import annotations

import struct
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import HudiError, TableCorrupt, UnsupportedTable
from pyhudi.format.delete_block import Deleted, delete_content, deleted_keys, inexact

PATH = "dt=1/.f_1.log.1_0-1-2"
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}
KINDS: dict[str, Any] = {
    "Boolean": "boolean",
    "Int": "int",
    "Long": "long",
    "Float": "float",
    "Double": "double",
    "Bytes": "bytes",
    "String": "string",
    "Date": "int",
    "Decimal": DECIMAL,
    "TimeMicros": {"type": "long", "logicalType": "time-micros"},
    "TimestampMicros": "long",
}


def wrapper(name: str, kind: Any) -> dict[str, Any]:
    fields = [{"name": "value", "type": kind}]
    return {"type": "record", "name": f"{name}Wrapper", "fields": fields}


def record(name: str, **fields: Any) -> dict[str, Any]:
    held = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": held}


NAMES = [f"{name}Wrapper" for name in KINDS]
ITEMS = ["null", *NAMES, wrapper("LocalDate", "int")]
SEVERAL = record("ArrayWrapper", wrappedValues=["null", {"type": "array", "items": ITEMS}])
TEXT = ["null", "string"]
ORDER = ["null", *(wrapper(name, kind) for name, kind in KINDS.items()), SEVERAL]
DELETE = record("HoodieDeleteRecord", recordKey=TEXT, partitionPath=TEXT, orderingVal=ORDER)
DELETES = fastavro.parse_schema(
    record("HoodieDeleteRecordList", deleteRecordList={"type": "array", "items": DELETE})
)


def wrapped(kind: str, value: object) -> tuple[str, Any]:
    return f"{kind}Wrapper", {"value": value}


def several(*values: tuple[str, Any] | None) -> tuple[str, Any]:
    return "ArrayWrapper", {"wrappedValues": list(values)}


def encoded(*deletes: tuple[str | None, tuple[str, Any] | None]) -> bytes:
    """The Avro bytes of deletes, each a key and an ordering value."""
    rows = [
        {"recordKey": key, "partitionPath": "dt=1", "orderingVal": order} for key, order in deletes
    ]
    sink = BytesIO()
    fastavro.schemaless_writer(sink, DELETES, {"deleteRecordList": rows})
    return sink.getvalue()


def block(data: bytes, version: int = 3) -> bytes:
    return struct.pack(">ii", version, len(data)) + data


def orders(*values: tuple[str, Any] | None) -> list[tuple[tuple[str, Any], ...]]:
    found = deleted_keys(block(encoded(*((str(n), each) for n, each in enumerate(values)))), PATH)
    assert [each.key for each in found] == [str(n) for n in range(len(values))]
    return [each.order for each in found]


@pytest.mark.parametrize(
    ("wrapper_name", "value", "kind"),
    [
        ("Boolean", True, "boolean"),
        ("Boolean", False, "boolean"),
        ("Int", -5, "int"),
        ("Long", 1 << 60, "long"),
        ("Float", 0.5, "float"),
        ("Double", float("inf"), "double"),
        ("Bytes", b"\x00\xff", "bytes"),
        ("String", "Zürich", "string"),
        ("Date", 19_000, "date"),
        ("Decimal", Decimal("-12.500000000000000"), "decimal"),
        ("TimestampMicros", 1_700_000_000_000_001, "timestamp"),
    ],
)
def test_a_delete_has_an_ordering_value_of_each_kind(
    wrapper_name: str, value: object, kind: str
) -> None:
    assert orders(wrapped(wrapper_name, value)) == [((kind, value),)]


def test_a_time_of_the_day_is_microseconds() -> None:
    # The library takes a time of the day only as Python's type.
    import datetime

    assert orders(wrapped("TimeMicros", datetime.time(0, 0, 1))) == [(("time", 1_000_000),)]


def test_null_and_the_int_0_are_no_ordering_values() -> None:
    zero = [wrapped("Long", 0), wrapped("Double", 0.0), wrapped("Date", 0)]
    assert orders(None, wrapped("Int", 0)) == [(), ()]
    assert orders(*zero) == [(("long", 0),), (("double", 0.0),), (("date", 0),)]


def test_several_ordering_values_keep_their_kinds_also_an_int_0() -> None:
    assert orders(
        several(wrapped("Long", 7), wrapped("String", "x"), wrapped("LocalDate", 3)),
        several(wrapped("Int", 5), wrapped("Int", 0)),
        several(wrapped("Long", 1), None),
        several(wrapped("Int", 0), wrapped("Int", 0)),
    ) == [
        (("long", 7), ("string", "x"), ("date", 3)),
        (("int", 5), ("int", 0)),
        (("long", 1), ("null", None)),
        (("int", 0), ("int", 0)),
    ]


def test_an_array_of_one_ordering_value_stands_for_this_value() -> None:
    one = several(wrapped("Int", 0)), several(wrapped("Long", 4)), several()
    assert orders(*one, ("ArrayWrapper", {"wrappedValues": None})) == [(), (("long", 4),), (), ()]


VALUES = st.one_of(
    st.none(),
    st.booleans().map(lambda value: wrapped("Boolean", value)),
    st.integers(-(1 << 31), (1 << 31) - 1).map(lambda value: wrapped("Int", value)),
    st.integers(-(1 << 63), (1 << 63) - 1).map(lambda value: wrapped("Long", value)),
    st.floats(allow_nan=False).map(lambda value: wrapped("Double", value)),
    st.text(max_size=8).map(lambda value: wrapped("String", value)),
    st.binary(max_size=8).map(lambda value: wrapped("Bytes", value)),
)


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (pa.date32(), "int"),
        (pa.timestamp("us"), "long"),
        (pa.timestamp("us", "UTC"), "long"),
    ],
)
def test_days_and_times_are_written_as_the_numbers_that_apache_hudi_compares(
    kind: pa.DataType, written: str
) -> None:
    values = pa.array([-1, 7], pa.int32() if written == "int" else pa.int64())
    content = delete_content(pa.array(["a", "b"]), "", [values.cast(kind)])
    orders = [each.order for each in deleted_keys(content, PATH)]
    assert orders == [((written, -1),), ((written, 7),)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(max_size=8), VALUES), max_size=8))
def test_the_deletes_of_a_block_come_in_its_order(
    deletes: list[tuple[str, tuple[str, Any] | None]],
) -> None:
    wanted = []
    for key, order in deletes:
        held = order[1]["value"] if order else None
        nothing = order is None or (order[0] == "IntWrapper" and held == 0)
        kind = order[0].removesuffix("Wrapper").lower() if order else ""
        wanted.append(Deleted(key, () if nothing else ((kind, held),)))
    assert deleted_keys(block(encoded(*deletes)), PATH) == wanted


def test_more_bytes_than_the_block_announces_do_not_count() -> None:
    assert deleted_keys(block(encoded(("a", None))) + b"rest", PATH) == [Deleted("a", ())]


@pytest.mark.parametrize("version", [1, 2])
def test_blocks_of_before_0_14_are_refused_by_name(version: int) -> None:
    with pytest.raises(UnsupportedTable, match=f"delete block of version {version}") as caught:
        deleted_keys(block(b"\x01\x00java", version), PATH)
    assert caught.value.feature == f"delete blocks of version {version}"
    assert PATH in str(caught.value)


@pytest.mark.parametrize("version", [0, -1, 4])
def test_another_version_is_no_delete_block_that_anybody_wrote(version: int) -> None:
    with pytest.raises(HudiError, match=f"version {version}"):
        deleted_keys(block(encoded(("a", None)), version), PATH)


def torn() -> dict[str, bytes]:
    whole = block(encoded(("key-1", wrapped("Long", 7)), ("key-2", None)))
    cut = {f"cut at {at}": whole[:at] for at in range(len(whole))}
    data = encoded(("key", wrapped("Long", 7)))
    return cut | {
        "shorter": struct.pack(">ii", 3, len(data) - 1) + data,
        "longer": struct.pack(">ii", 3, len(data) + 1) + data,
        "negative size": struct.pack(">ii", 3, -1) + data,
        "branch": block(data.replace(b"key", b"key", 1)[:1] + b"\x40" + data[2:]),
        "negative branch": block(data[:1] + b"\x01" + data[2:]),
        "no UTF-8": block(data.replace(b"key", b"k\xffy")),
        "no key": block(encoded((None, None))),
        "endless number": block(b"\xff" * 200),
    }


@pytest.mark.parametrize("content", torn().values(), ids=torn().keys())
def test_what_does_not_decode_is_a_corrupt_table(content: bytes) -> None:
    with pytest.raises(TableCorrupt, match="delete block") as caught:
        deleted_keys(content, PATH)
    assert caught.value.path == PATH


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 255))
def test_a_changed_byte_is_told_or_gives_deletes(at: int, byte: int) -> None:
    data = bytearray(
        block(
            encoded(("key-1", wrapped("Long", 7)), ("k", several(wrapped("Decimal", Decimal(1)))))
        )
    )
    data[min(at, len(data) - 1)] = byte
    try:
        deleted_keys(bytes(data), PATH)
    except (TableCorrupt, UnsupportedTable):
        return


def test_a_decimal_with_more_places_than_the_block_has_is_rounded_up() -> None:
    held = [Decimal("1.000000000000000500"), Decimal("-1.000000000000000500")]
    values = pa.array(held, pa.decimal128(38, 18))
    content = delete_content(pa.array(["a", "b"]), "p", [values])
    found = [each.order[0][1] for each in deleted_keys(content, "f")]
    assert found == [Decimal("1.000000000000001"), Decimal("-1.000000000000000")]
    assert all(here >= there for here, there in zip(found, held, strict=True)), "a tie is won"


def test_what_a_block_would_change_is_told() -> None:
    ones, twos = pa.array([1, None, None, 2]), pa.array(["a", "b", None, None])
    assert inexact([ones, twos]).tolist() == [False, True, False, True]
    assert inexact([ones]).tolist() == [False] * 4
    fine = pa.array([Decimal("1e-16"), Decimal("1e-15"), None, Decimal("-1e-18")])
    assert inexact([fine.cast(pa.decimal128(20, 18))]).tolist() == [True, False, False, True]
    large = pa.array([Decimal(10) ** 15, Decimal(10) ** 15 - 1, -(Decimal(10) ** 16)])
    assert inexact([large.cast(pa.decimal128(20, 2))]).tolist() == [True, False, True]
