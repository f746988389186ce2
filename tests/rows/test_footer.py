"""Key ranges and bloom filters of base files, over creates and merges."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyhudi.format.bloom import FOOTER_KEY, FOOTER_TYPE_KEY, BloomFilter
from pyhudi.rows.groups import write_groups
from pyhudi.rows.spec import DELETE, GROUP, BloomSpec, GroupPlan
from tests.rows.workers import (
    T2,
    T3,
    Stat,
    footer,
    insert,
    rows_of,
    run,
    spec,
    upsert,
    with_columns,
)

SIMPLE = BloomSpec(fpp=0.001)
DYNAMIC = BloomSpec(fpp=0.001, dynamic=True, entries=100, max_entries=300)


def numbered(numbers: range) -> pa.Table:
    return rows_of([{"id": f"k{n}", "ts": 1} for n in numbers])


def bloom(root: Path, stat: Stat) -> BloomFilter:
    entries = footer(root, stat)
    return BloomFilter.from_footer(entries[FOOTER_KEY], entries.get(FOOTER_TYPE_KEY))


def says_maybe(root: Path, stat: Stat, numbers: range) -> int:
    return int(bloom(root, stat).might_contain(pa.array([f"k{n}" for n in numbers])).sum())


def test_without_a_bloom_index_the_filter_is_a_few_bytes_that_say_maybe(tmp_path: Path) -> None:
    stat = insert(spec(tmp_path), numbered(range(10)))
    entries = footer(tmp_path, stat)
    assert len(entries[FOOTER_KEY]) < 40
    assert FOOTER_TYPE_KEY not in entries
    assert says_maybe(tmp_path, stat, range(1000, 1100)) == 100
    assert entries["parquet.avro.schema"].startswith('{"type":"record"')
    assert (entries["hoodie_min_record_key"], entries["hoodie_max_record_key"]) == ("k0", "k9")


@pytest.mark.parametrize("kind", [SIMPLE, DYNAMIC])
def test_a_bloom_filter_knows_every_key_after_inserts_and_merges(
    tmp_path: Path, kind: BloomSpec
) -> None:
    first = insert(spec(tmp_path, bloom=kind), numbered(range(90)))
    assert says_maybe(tmp_path, first, range(90)) == 90
    assert says_maybe(tmp_path, first, range(10_000, 11_000)) < 20
    second = upsert(spec(tmp_path, T2, bloom=kind), first, numbered(range(80, 120)))
    assert says_maybe(tmp_path, second, range(120)) == 120
    assert says_maybe(tmp_path, second, range(10_000, 11_000)) < 60
    code = footer(tmp_path, second).get(FOOTER_TYPE_KEY)
    assert code == ("DYNAMIC_V0" if kind.dynamic else None)


def test_a_simple_filter_is_made_anew_when_the_rows_outgrow_it(tmp_path: Path) -> None:
    first = insert(spec(tmp_path, bloom=SIMPLE), numbered(range(50)))
    grown = upsert(spec(tmp_path, T2, bloom=SIMPLE), first, numbered(range(50, 90)))
    assert bloom(tmp_path, grown).bits == bloom(tmp_path, first).bits
    rebuilt = upsert(spec(tmp_path, T3, bloom=SIMPLE), first, numbered(range(50, 500)))
    assert bloom(tmp_path, rebuilt).bits > 5 * bloom(tmp_path, first).bits
    assert says_maybe(tmp_path, rebuilt, range(500)) == 500


def test_a_filter_that_is_missing_or_of_the_other_kind_is_made_from_all_keys(
    tmp_path: Path,
) -> None:
    first = insert(spec(tmp_path), numbered(range(50)))  # only the filter that says maybe
    second = upsert(spec(tmp_path, T2, bloom=SIMPLE), first, numbered(range(5)))
    assert says_maybe(tmp_path, second, range(50)) == 50
    assert says_maybe(tmp_path, second, range(10_000, 11_000)) < 20
    third = upsert(spec(tmp_path, T3, bloom=DYNAMIC), second, numbered(range(5)))
    assert bloom(tmp_path, third).type_code == "DYNAMIC_V0"
    assert says_maybe(tmp_path, third, range(50)) == 50


def test_a_new_group_has_a_filter_for_its_rows(tmp_path: Path) -> None:
    table = with_columns(numbered(range(300)), **{GROUP: 0})
    work = write_groups(spec(tmp_path, bloom=SIMPLE), {0: GroupPlan(0, "f-0", "")})
    (stat,) = run(work, table, batch_rows=50)
    assert says_maybe(tmp_path, stat, range(300)) == 300
    assert abs(bloom(tmp_path, stat).capacity(0.001) - 300) < 5


def test_the_key_range_shrinks_and_grows_with_the_rows(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of([{"id": key, "ts": 1} for key in "cbd"]))
    gone = rows_of([{"id": "b"}, {"id": "d"}], **{DELETE: pa.array([True, True])})
    second = upsert(spec(tmp_path, T2), first, gone)
    assert (second["min_key"], second["max_key"]) == ("c", "c")
    third = upsert(spec(tmp_path, T3), second, rows_of([{"id": "a"}, {"id": "e"}]))
    assert (third["min_key"], third["max_key"]) == ("a", "e")
    entries = footer(tmp_path, third)
    assert (entries["hoodie_min_record_key"], entries["hoodie_max_record_key"]) == ("a", "e")


def test_the_key_range_is_in_the_order_of_java_strings(tmp_path: Path) -> None:
    # As UTF-8 the first is the larger; as UTF-16 it begins with a surrogate, below U+FF5E.
    keys = ["\U0001f600", "\uff5e", "ключ"]
    stat = insert(spec(tmp_path), rows_of([{"id": key, "ts": 1} for key in keys]))
    assert (stat["min_key"], stat["max_key"]) == ("ключ", "\uff5e")
