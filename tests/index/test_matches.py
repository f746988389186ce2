from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pyhudi.index.matches import MatchSpec, match_files
from pyhudi.rows.spec import FileSystemSpec
from tests.index.test_lookup import keys_footer, put

LOCAL = FileSystemSpec("local", {})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    put(tmp_path, "one.parquet", ["a", "b", "c", "d", "e"], keys_footer("a", "e"))
    put(tmp_path, "two.parquet", ["x", "b"], keys_footer("b", "x"))
    put(tmp_path, "empty.parquet", [], {})
    return tmp_path


def found(root: Path, wanted: dict[str, list[str]], *files: tuple[int, str, str]) -> object:
    spec = MatchSpec(str(root), LOCAL, {p: pa.array(keys) for p, keys in wanted.items()})
    matches = match_files(spec)(files)
    return {ordinal: np.frombuffer(at, np.int32).tolist() for ordinal, at in matches}


def test_positions_of_the_wanted_keys_come_by_file(table: Path) -> None:
    wanted = {"p": ["e", "b", "nowhere", "a"], "q": ["b"]}
    files = ((0, "one.parquet", "p"), (1, "two.parquet", "q"))

    assert found(table, wanted, *files) == {0: [3, 1, 0], 1: [0]}


def test_files_of_partitions_without_wanted_keys_are_not_opened(table: Path) -> None:
    assert found(table, {"p": []}, (0, "absent.parquet", "p"), (1, "absent.parquet", "q")) == {}


def test_files_without_a_match_say_so(table: Path) -> None:
    files = ((0, "one.parquet", "p"), (1, "empty.parquet", "p"))
    assert found(table, {"p": ["zz", "bb"]}, *files) == {0: [], 1: []}
