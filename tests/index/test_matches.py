from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.index.matches import MatchSpec, Probe, match_files
from pyhudi.rows.hashing import key_hashes
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
    return {ordinal: np.frombuffer(at, np.int32).tolist() for ordinal, at, _ in matches}


def test_positions_of_the_wanted_keys_come_by_file(table: Path) -> None:
    wanted = {"p": ["e", "b", "nowhere", "a"], "q": ["b"]}
    files = ((0, "one.parquet", "p"), (1, "two.parquet", "q"))

    assert found(table, wanted, *files) == {0: [3, 1, 0], 1: [0]}


def test_files_of_partitions_without_wanted_keys_are_not_opened(table: Path) -> None:
    assert found(table, {"p": []}, (0, "absent.parquet", "p"), (1, "absent.parquet", "q")) == {}


def test_files_without_a_match_say_so(table: Path) -> None:
    files = ((0, "one.parquet", "p"), (1, "empty.parquet", "p"))
    assert found(table, {"p": ["zz", "bb"]}, *files) == {0: [], 1: []}


def remembered(root: Path, keys: list[str], **paths: bool) -> dict[str, tuple[list[int], object]]:
    """The answers for files of partition p, by path, with the hashes of their keys."""
    marks = {f"{name}.parquet": always for name, always in paths.items()}
    spec = MatchSpec(str(root), LOCAL, {"p": pa.array(keys)}, False, marks)
    asked = [(n, path, "p") for n, path in enumerate(marks)]
    found = {}
    for ordinal, at, hashes in match_files(spec)(asked):
        told = None if hashes is None else np.frombuffer(hashes, np.uint64).tolist()
        found[asked[ordinal][1]] = (np.frombuffer(at, np.int32).tolist(), told)
    return found


def test_hashes_of_all_keys_come_with_the_positions(table: Path) -> None:
    hashes = key_hashes(pa.array(["a", "b", "c", "d", "e"])).tolist()
    found = remembered(table, ["e", "b", "b2", "a"], one=False)
    assert found == {"one.parquet": ([3, 1, 0], hashes)}


def test_hashes_of_a_file_that_its_footer_rules_out_come_only_on_demand(table: Path) -> None:
    assert remembered(table, ["zz"], one=False) == {"one.parquet": ([], None)}
    _, hashes = remembered(table, ["zz"], one=True)["one.parquet"]
    assert hashes == key_hashes(pa.array(["a", "b", "c", "d", "e"])).tolist()


@pytest.mark.parametrize("unused_bits", [0, 61, 63])
def test_a_probe_compares_the_keys_that_share_a_hash(tmp_path: Path, unused_bits: int) -> None:
    put(tmp_path, "one.parquet", [f"k{n}" for n in range(0, 300, 3)] + ["k3"], {})
    keys = pa.array([f"k{n}" for n in range(0, 300, 2)])
    found, hashes = Probe(keys, unused_bits).positions(pq.ParquetFile(tmp_path / "one.parquet"))
    assert [keys[n].as_py() for n in sorted(found)] == [f"k{n}" for n in range(0, 300, 6)]
    assert len(hashes) == 101
