from __future__ import annotations

import pytest

from pyhudi.errors import StorageError
from pyhudi.storage.base import checked

OUTSIDE = ["/a", "..", "../a", "a/../b", "a/..", "a\\b", "a\0b", "/"]
TWICE_SPELT = ["a//b", "a/./b", ".", "./a", "a/.", "a//", "//"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leaves_the_table_is_refused(path: str) -> None:
    with pytest.raises(StorageError, match="not a path inside the table"):
        checked(path)


@pytest.mark.parametrize("path", TWICE_SPELT)
def test_a_second_spelling_of_a_path_is_refused(path: str) -> None:
    """An object store would keep it as another file."""
    with pytest.raises(StorageError, match="not a path inside the table"):
        checked(path)


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("", ""),
        ("a", "a"),
        ("a/", "a"),
        ("a/b.c", "a/b.c"),
        ("...", "..."),
        ("a b/%2F=ö", "a b/%2F=ö"),
    ],
)
def test_a_good_path_is_itself(path: str, inside: str) -> None:
    assert checked(path) == inside
