from __future__ import annotations

import pytest

from pyhudi.errors import InvalidRecord
from pyhudi.storage.base import checked
from pyhudi.writes.keys.partition_paths import check_partition_paths, delete_pattern_matches


@pytest.mark.parametrize(
    "path",
    ["/a", "a/", "a//b", ".", "a/./b", "..", "a/../b", ".hoodie", ".hoodie/x", "a\0", "a\\b"],
)
def test_a_value_that_is_no_folder_of_the_table_is_refused(path: str) -> None:
    with pytest.raises(InvalidRecord, match="Correct the partition column") as refused:
        check_partition_paths(["good", path])
    assert refused.value.facts["column"] == "_hoodie_partition_path"
    assert ("urlencode" in str(refused.value)) == (path not in (".", "..", ".hoodie"))


@pytest.mark.parametrize(
    "path", ["", "a", "p=1/q=x y", "2024/05/01", "ö", "a.b", "...", "a/.hoodie", "50%"]
)
def test_all_else_is_taken_and_storage_takes_it_too(path: str) -> None:
    check_partition_paths([path])
    assert checked(path) == path


@pytest.mark.parametrize(
    ("pattern", "partition", "matches"),
    [
        ("2024-01-01", "2024-01-01", True),
        ("2024-01-01", "2024-01-011", False),
        ("2024-*", "2024-01-01", True),
        ("2024-*", "x2024-01-01", False),
        ("*-01", "2024-01-01", True),
        ("2024-*-01", "2024-07-01", True),
        ("2024-*-01", "2024-07-02", False),
        ("a.c", "abc", False),
        ("p=1/*", "p=1/q=2/r=3", True),
        ("*", "", True),
        ("", "a", False),
        ("a[b]", "a[b]", True),
    ],
)
def test_patterns_of_partitions_to_delete(pattern: str, partition: str, matches: bool) -> None:
    assert delete_pattern_matches(pattern, partition) is matches
