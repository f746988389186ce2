"""Base files, log files and the slices that they make."""

from __future__ import annotations

from itertools import permutations

from pyhudi.format.filenames import FileId, LogFileName, parse_log_file_name
from pyhudi.format.instants import InstantTime
from pyhudi.slices.files import BaseFile, FileSlice, LogFile, base_files, in_order
from tests.golden_tables import BY_NAME

T1, T2 = InstantTime("20240101000000001"), InstantTime("20240101000000002")
BASE = BaseFile("p", "g_0-1-2_20240101000000001.parquet", FileId("g"), T1, 100, 3)


def log(instant: InstantTime, version: int = 1, token: str | None = "0-1-2") -> LogFile:
    return LogFile("p", LogFileName(FileId("g"), instant, version, token), 10)


def test_a_slice_is_named_by_its_base_file_else_by_its_first_log() -> None:
    slices = [FileSlice(BASE, (log(T2),)), FileSlice(None, (log(T2), log(T2, 2))), FileSlice(BASE)]

    assert [(s.partition_path, s.file_id, s.instant, s.size_bytes) for s in slices] == [
        ("p", "g", T1, 110),
        ("p", "g", T2, 20),
        ("p", "g", T1, 100),
    ]
    assert base_files(slices) == [BASE, BASE]


def test_logs_are_merged_by_instant_then_version_then_write_token() -> None:
    ordered = (log(T1, 1, None), log(T1), log(T1, 2), log(T1, 2, "0-1-3"), log(T1, 10), log(T2))
    assert {in_order(shuffled) for shuffled in permutations(ordered)} == {ordered}


def test_the_path_of_a_log_is_the_one_that_it_was_listed_by() -> None:
    paths = [p for p in BY_NAME["h120_v9-mor_bucket"].files() if not p.startswith(".hoodie")]
    named = [(p.rpartition("/")[0], p, parse_log_file_name(p.rpartition("/")[2])) for p in paths]
    logs = [(path, LogFile(folder, name, 0)) for folder, path, name in named if name]
    assert logs
    assert all(file.path == path for path, file in logs)
