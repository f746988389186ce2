from __future__ import annotations

import hashlib
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import TableCorrupt
from pyhudi.format.bloom import (
    DYNAMIC_V0,
    FOOTER_KEY,
    FOOTER_MAX_KEY,
    FOOTER_MIN_KEY,
    FOOTER_TYPE_KEY,
    SIMPLE,
    BloomFilter,
    size_for,
)
from tests import golden_tables
from tests.golden_tables import GoldenTable

keys_lists = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=60)


def java_keys() -> list[str]:
    """700 keys of all lengths and scripts, among them each remainder of four bytes."""
    odd = ["a", "", "é", "日本語", "😀x", "key:1,ts:2", "\0z", "ÿÿÿ"]
    return [
        odd[i % 8] + "".join(chr(33 + (i * 7 + j * 31) % 90) for j in range(i % 13)) + str(i)
        for i in range(700)
    ]


# SHA-256 of what Hudi 1.2.0's BloomFilterFactory makes of these keys.
@pytest.mark.parametrize(
    ("entries", "fpp", "max_entries", "type_code", "digest"),
    [
        (100, 1e-3, 300, DYNAMIC_V0,
         "43b3664d766cb6a48fd2bdbbfef48d907015c16a660801e69437804e18a5374c"),
        (50, 0.01, 10_000, DYNAMIC_V0,
         "eaf14b6c5c23694505419f200639f236b43421bbd02f7b5c9a8b43ba5a19dc4a"),
        (700, 1e-9, 0, SIMPLE,
         "c61fe0af01cdf6ec06e7af0ef5f0daca45bb78b566dc1c68aeda526c31ff2f0d"),
        (3, 0.1, 0, SIMPLE,
         "2a9f8e86aa6f878cb224a6081599958662d99dc9c1d031ef28d1edf6db9f3f93"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("cuts", [(0, 700), (0, 1, 150, 151, 400, 700)])
def test_filters_are_hudi_s_bit_for_bit_however_the_keys_arrive(
    entries: int, fpp: float, max_entries: int, type_code: str, digest: str, cuts: tuple[int, ...]
) -> None:
    bloom = BloomFilter.sized(entries, fpp, type_code, max_entries)
    keys = pa.array(java_keys())

    for begin, end in pairwise(cuts):
        bloom.add(keys.slice(begin, end - begin))

    assert hashlib.sha256(bloom.to_footer().encode()).hexdigest() == digest


@pytest.mark.parametrize("table", golden_tables.ALL, ids=lambda table: table.name)
def test_every_footer_is_rebuilt_from_the_keys_in_its_file(table: GoldenTable) -> None:
    checked = 0
    for path, data in table.files().items():
        if not path.endswith(".parquet") or path.startswith(".hoodie/") or not data:
            continue
        file = pq.ParquetFile(pa.BufferReader(data))
        footer = {k.decode(): v.decode() for k, v in file.metadata.metadata.items()}
        keys = file.read(columns=["_hoodie_record_key"]).column(0)
        stored = BloomFilter.from_footer(footer[FOOTER_KEY], footer.get(FOOTER_TYPE_KEY), path)
        # The two odd key tables say in their README how far a dynamic filter may grow.
        most = 30 if table.table == "cow_keys_dynamic_v0" else 100_000
        rebuilt = BloomFilter(stored.type_code, stored.bits, stored.hashes, stored.entries, most)
        rebuilt.add(keys)

        assert rebuilt.to_footer() == stored.to_footer() == footer[FOOTER_KEY], path
        assert stored.might_contain(keys).all(), path
        if len(keys):
            ordered = sorted(keys.to_pylist())
            assert (ordered[0], ordered[-1]) == (footer[FOOTER_MIN_KEY], footer[FOOTER_MAX_KEY])
        checked += 1
    assert checked or table.merge_on_read


@pytest.mark.parametrize("type_code", [SIMPLE, DYNAMIC_V0])
@given(before=keys_lists, after=keys_lists)
def test_a_filter_never_denies_a_key_also_after_its_footer_was_read(
    type_code: str, before: list[str], after: list[str]
) -> None:
    bloom = BloomFilter.sized(7, 0.01, type_code)
    bloom.add(pa.array(before, pa.string()))

    again = BloomFilter.from_footer(bloom.to_footer(), type_code)
    again.add(pa.chunked_array([pa.array(after, pa.string())]))

    assert again.might_contain(pa.array(before + after, pa.string())).all()
    assert BloomFilter.from_footer(bloom.to_footer(), type_code).to_footer() == bloom.to_footer()


def test_most_absent_keys_are_denied_and_nulls_always() -> None:
    bloom = BloomFilter.sized(1000, 0.01)
    bloom.add(pa.array([f"in-{n}" for n in range(1000)]))

    absent = bloom.might_contain(pa.array([f"out-{n}" for n in range(2000)])).mean()
    mixed = bloom.might_contain(pa.array([None, "in-1", None, "in-2"]))

    assert 0 < absent < 0.03
    assert mixed.tolist() == [False, True, False, True]


def test_a_filter_of_set_bits_says_maybe_to_each_key_and_stays_small() -> None:
    text = BloomFilter.always_true().to_footer()

    bloom = BloomFilter.from_footer(text, None)

    assert len(text) == 28
    assert bloom.might_contain(pa.array(java_keys())).all()


def test_the_default_size_is_hudi_s() -> None:
    assert size_for(60_000, 1e-9) == (0x277D3E, 30)
    assert BloomFilter.sized(60_000).capacity() == 60_000


def test_long_keys_are_hashed_in_bounded_slices() -> None:
    keys = pa.array(["k" * (20_000 if n % 100 == 0 else n) for n in range(1, 301)])
    whole, single = BloomFilter(SIMPLE, 9_973, 2), BloomFilter(SIMPLE, 9_973, 2)

    whole.add(keys)

    for n in range(len(keys)):
        single.add(keys.slice(n, 1))
    assert whole.to_footer() == single.to_footer()


@pytest.mark.parametrize("type_code", [None, DYNAMIC_V0])
@pytest.mark.parametrize("text", ["", "?", "AAAA", "/////wAAAAEBAAAAQP8=", "AAAAAAAAAAEBAAAAQP//"])
def test_what_is_no_filter_names_its_file(text: str, type_code: str | None) -> None:
    with pytest.raises(TableCorrupt, match="bloom filter") as error:
        BloomFilter.from_footer(text, type_code, "dt=1/f.parquet")
    assert error.value.facts["path"] == "dt=1/f.parquet"


def test_an_unknown_type_of_filter_names_its_file() -> None:
    with pytest.raises(TableCorrupt, match="not a type of bloom filter"):
        BloomFilter.from_footer(BloomFilter.always_true().to_footer(), "CUCKOO", "f")
