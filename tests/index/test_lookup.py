from __future__ import annotations

import datetime
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import TableCorrupt
from pyhudi.format.bloom import BloomFilter
from pyhudi.index.lookup import (
    BLOOM,
    KEY,
    MAX_KEY,
    MIN_KEY,
    OLD,
    ORDINAL,
    PARTITION,
    LookupSpec,
    file_hits,
    lookup,
    possible,
)
from pyhudi.index.matches import MatchSpec, match_files
from pyhudi.rows.spec import FileSystemSpec
from tests.rows.test_calendars import LEGACY

LOCAL = FileSystemSpec("local", {})


def put(folder: Path, name: str, keys: list[str], footer: dict[bytes, bytes]) -> None:
    table = pa.table({KEY: pa.array(keys, pa.string()), "v": pa.array(range(len(keys)))})
    schema = table.schema.with_metadata(footer)
    pq.write_table(table.replace_schema_metadata(schema.metadata), folder / name, row_group_size=2)


def keys_footer(low: str, high: str) -> dict[bytes, bytes]:
    return {MIN_KEY: low.encode(), MAX_KEY: high.encode()}


def run(spec: LookupSpec, *ordinals: int) -> list[tuple[str, int, str]]:
    asked = pa.RecordBatch.from_arrays([pa.array(ordinals, pa.int32())], names=[ORDINAL])
    found = pa.Table.from_batches(lookup(spec)(iter([asked]))).to_pylist()
    return [(row[KEY], row[ORDINAL], row[PARTITION]) for row in found]


@pytest.fixture
def two_files(tmp_path: Path) -> dict[int, tuple[str, str]]:
    put(tmp_path, "one.parquet", ["a", "b", "c"], keys_footer("a", "c"))
    put(tmp_path, "two.parquet", ["b", "x"], keys_footer("b", "x"))
    return {0: ("one.parquet", "p"), 1: ("two.parquet", "q")}


def test_every_key_comes_with_its_file_and_partition(
    tmp_path: Path, two_files: dict[int, tuple[str, str]]
) -> None:
    spec = LookupSpec(str(tmp_path), LOCAL, two_files)
    assert run(spec, 0, 1) == [
        ("a", 0, "p"), ("b", 0, "p"), ("c", 0, "p"), ("b", 1, "q"), ("x", 1, "q"),
    ]  # fmt: skip


def test_wanted_keys_are_looked_for_in_their_own_partition(
    tmp_path: Path, two_files: dict[int, tuple[str, str]]
) -> None:
    wanted = {"p": pa.array(["b", "c", "y"])}
    spec = LookupSpec(str(tmp_path), LOCAL, two_files, wanted)
    assert run(spec, 0) == [("b", 0, "p"), ("c", 0, "p")]
    assert list(lookup(spec)(iter([pa.record_batch({ORDINAL: pa.array([1], pa.int32())})]))) == []


def left(footer: dict[bytes, bytes], wanted: list[str], use_bloom: bool = False) -> list[str]:
    return possible(footer, pa.array(wanted), use_bloom).to_pylist()


def test_the_range_of_a_file_prunes_keys_at_both_ends() -> None:
    assert left(keys_footer("b", "d"), ["a", "b", "c", "d", "e"]) == ["b", "c", "d"]
    assert left({}, ["a"]) == ["a"]


@pytest.mark.parametrize(
    ("low", "high", "key"),
    [
        ("😀", "ｚ", "😀"),  # Java: surrogates come before U+FF5A
        ("😀", "ｚ", "ｚ"),
        ("a", "\ue000", "😀"),
        ("😀", "\ufffd", "😁"),
    ],
)
def test_keys_beyond_the_basic_plane_are_never_pruned_by_a_range_in_javas_order(
    low: str, high: str, key: str
) -> None:
    assert left(keys_footer(low, high), [key]) == [key]


def test_ranges_of_common_scripts_prune() -> None:
    assert left(keys_footer("Австрия", "Япония"), ["Ангола", "zebra", "日本", "😀"]) == ["Ангола"]


def test_the_bloom_filter_prunes_only_where_it_is_asked() -> None:
    bloom = BloomFilter.sized(10, 1e-9)
    bloom.add(pa.array(["b", "c"]))
    footer = {**keys_footer("b", "d"), BLOOM: bloom.to_footer().encode()}

    assert left(footer, ["b", "bb", "c"], use_bloom=True) == ["b", "c"]
    assert left(footer, ["b", "bb", "c"]) == ["b", "bb", "c"]
    maybe = {**keys_footer("b", "d"), BLOOM: BloomFilter.always_true().to_footer().encode()}
    assert left(maybe, ["b", "bb"], use_bloom=True) == ["b", "bb"]


def test_a_filter_rules_a_file_out_before_its_keys_are_read(tmp_path: Path) -> None:
    bloom = BloomFilter.sized(10, 1e-9)
    bloom.add(pa.array(["a", "c"]))
    footer = {**keys_footer("a", "c"), BLOOM: bloom.to_footer().encode()}
    # The filter is wrong on purpose: that "b" is not found shows that the rows were not read.
    put(tmp_path, "one.parquet", ["a", "b", "c"], footer)
    spec = LookupSpec(str(tmp_path), LOCAL, {0: ("one.parquet", "p")}, {"p": pa.array(["b"])}, True)
    asked = pa.record_batch({ORDINAL: pa.array([0], pa.int32())})

    assert list(lookup(spec)(iter([asked]))) == []


@pytest.mark.parametrize("damage", ["gone", "empty", "cut off"])
def test_a_damaged_file_is_told_by_its_path(tmp_path: Path, damage: str) -> None:
    put(tmp_path, "one.parquet", ["a", "b"], {})
    file = tmp_path / "one.parquet"
    if damage == "gone":
        file.unlink()
    else:
        os.truncate(file, 0 if damage == "empty" else file.stat().st_size // 2)
    wanted = {"p": pa.array(["a"])}
    with pytest.raises(TableCorrupt, match=r"one\.parquet"):
        run(LookupSpec(str(tmp_path), LOCAL, {0: ("one.parquet", "p")}), 0)
    with pytest.raises(TableCorrupt, match=r"one\.parquet"):
        list(match_files(MatchSpec(str(tmp_path), LOCAL, wanted))([(0, "one.parquet", "p")]))


@pytest.mark.parametrize("old", [False, True], ids=["today's calendar", "the old calendar"])
@pytest.mark.parametrize("int96", [False, True], ids=["long", "int96"])
def test_days_and_times_beside_keys_are_those_that_a_reader_sees(
    tmp_path: Path, old: bool, int96: bool
) -> None:
    kinds = pa.schema([("d", pa.date32()), ("t", pa.timestamp("us", "UTC"))])
    years = (1, 9999)
    days = pa.array([datetime.date(year, 1, 1) for year in years])
    times = pa.array([datetime.datetime(year, 1, 1) for year in years], kinds.field("t").type)
    far = days.to_pylist(), times.cast(pa.timestamp("us")).to_pylist()
    if old:
        # The old calendar counts the first day of the year 1 two days earlier.
        days = pc.subtract(days.cast(pa.int32()), pa.array([2, 0], pa.int32())).cast(pa.date32())
        apart = pa.array([2 * 86_400_000_000, 0])
        times = pc.subtract(times.cast(pa.int64()), apart).cast(kinds.field("t").type)
    table = pa.table({KEY: ["a", "b"], "d": days, "t": times})
    table = table.replace_schema_metadata(LEGACY if old else {})
    path = tmp_path / "one.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=int96)
    spec = LookupSpec(str(tmp_path), LOCAL, {0: (path.name, "p")}, beside=kinds)
    (found,) = file_hits(spec, LOCAL.open(), 0)
    assert found.column(f"{OLD}0").to_pylist() == far[0]
    assert found.column(f"{OLD}1").cast(pa.timestamp("us")).to_pylist() == far[1]
