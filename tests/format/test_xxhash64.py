from __future__ import annotations

import pytest

from pyhudi.format.xxhash64 import table_hash, xxh64


@pytest.mark.parametrize(
    ("base_path", "expected"),
    [
        ("s3://bucket/table", "4DCF035CB614089C"),
        ("s3a://bucket/table", "4DCF035CB614089C"),
        ("S3A://bucket/table", "4DCF035CB614089C"),
        ("/data/rides", "3783F0135AB57FB8"),
        ("", "0D6FDE68D55B45DA"),
        ("a", "0451EAA7628BCEB3"),
        ("s3a://some-bucket/with/a/longer/path/that/exceeds/thirty-two/bytes", "AE18A03A0936B185"),
    ],
)
def test_a_base_path_has_the_hash_that_hudi_gives_it(base_path: str, expected: str) -> None:
    """The expected values are those of Apache Hudi 1.2.0."""
    assert table_hash(base_path) == expected


def test_the_published_values_of_the_algorithm_come_out() -> None:
    assert xxh64(b"", seed=0) == 0xEF46DB3751D8E999
    assert xxh64(b"abc", seed=0) == 0x44BC2CF5AD770999
