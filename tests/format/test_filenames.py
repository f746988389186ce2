from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.format.filenames import (
    BaseFileName,
    FileId,
    LogFileName,
    bucket_file_id,
    bucket_number,
    parse_base_file_name,
    parse_data_file_name,
    parse_log_file_name,
    shared_bucket_file_id,
)
from pyhudi.format.instants import InstantTime

UUID = "383ce9f7-b8ef-42c2-ad0a-eb6581a6e3a8"
file_ids = st.builds(lambda u, n: FileId(f"{u}-{n}"), st.uuids(), st.integers(0, 99))
instants = st.integers(10**16, 10**17 - 1).map(lambda n: InstantTime(str(n)))
tokens = st.tuples(*[st.integers(0, 10**9)] * 3).map(lambda t: "-".join(map(str, t)))
base_names = st.builds(BaseFileName, file_ids, tokens, instants)
log_names = st.one_of(
    st.builds(LogFileName, file_ids, instants, st.integers(1, 999), tokens, st.booleans()),
    st.builds(LogFileName, file_ids, instants, st.integers(1, 999), st.none()),
)


@given(base_names)
def test_parsing_a_rendered_base_file_name_gives_its_parts(name: BaseFileName) -> None:
    assert parse_base_file_name(name.render()) == name
    assert parse_log_file_name(name.render()) is None
    assert parse_data_file_name(name.render()) == name


@given(log_names)
def test_parsing_a_rendered_log_file_name_gives_its_parts(name: LogFileName) -> None:
    assert parse_log_file_name(name.render()) == name
    assert parse_base_file_name(name.render()) is None
    assert parse_data_file_name(name.render()) == name


def test_the_names_are_those_of_the_format() -> None:
    instant = InstantTime("20261121052010688")
    base = BaseFileName(FileId(f"{UUID}-2"), "0-59-54", instant)
    log = LogFileName(FileId(f"{UUID}-2"), instant, 1, "0-672-680", cdc=True)

    assert base.render() == f"{UUID}-2_0-59-54_20261121052010688.parquet"
    assert log.render() == f".{UUID}-2_20261121052010688.log.1_0-672-680.cdc"


@pytest.mark.parametrize(
    "name",
    [
        ".hoodie_partition_metadata",
        "part-00000-3f7c.snappy.parquet",
        f".{UUID}-0_0-1-2_20261121052010688.parquet.crc",
        f"{UUID}-0_0-1-2_20261121052010688.parquet.tmp",
        f"dt=1/{UUID}-0_0-1-2_20261121052010688.parquet",
    ],
)
def test_other_files_of_a_partition_are_no_data_files(name: str) -> None:
    assert parse_base_file_name(name) is None
    assert parse_log_file_name(name) is None
    assert parse_data_file_name(name) is None


@given(st.integers(0, 99_999_999), st.uuids())
def test_a_bucket_s_file_id_tells_its_number(bucket: int, uuid: object) -> None:
    file_id = bucket_file_id(bucket, str(uuid))

    assert bucket_number(file_id) == bucket
    assert len(file_id) == len(UUID) + 2


def test_a_file_id_without_a_number_is_no_bucket() -> None:
    assert bucket_number(f"{UUID}-0") is None
    assert bucket_file_id(1, UUID) == "00000001-b8ef-42c2-ad0a-eb6581a6e3a8-0"
    with pytest.raises(ValueError, match="eight-digit"):
        bucket_file_id(100_000_000, UUID)
    with pytest.raises(ValueError, match="not a uuid"):
        bucket_file_id(1, "short")


def test_writers_without_coordination_begin_a_bucket_under_one_name_as_apache_hudi_s() -> None:
    assert shared_bucket_file_id(3) == "00000003-0000-0000-0000-000000000000-0"
    assert shared_bucket_file_id(12_345_678, 2) == "12345678-0000-0000-0000-000000000002-0"
    assert bucket_number(shared_bucket_file_id(7, 1)) == 7
    with pytest.raises(ValueError, match="no eight-digit number"):
        shared_bucket_file_id(100_000_000)
