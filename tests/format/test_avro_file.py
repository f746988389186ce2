from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
import pytest

from pyhudi.errors import TableCorrupt
from pyhudi.format.avro_file import is_avro, packaged_schema, read_record, write_record

RECORD: dict[str, Any] = {
    "savepointedBy": "me",
    "savepointedAt": 1_795_238_927_837,
    "comments": "",
    "partitionMetadata": {"": {"partitionPath": "", "savepointDataFile": ["a", "b"]}},
    "version": 1,
}
NAME = "HoodieSavepointMetadata"


def test_a_written_record_is_read_here_and_by_fastavro() -> None:
    data = write_record(NAME, RECORD)

    assert is_avro(data)
    assert read_record(data, "p") == RECORD
    assert list(fastavro.reader(BytesIO(data))) == [RECORD]
    assert data == write_record(NAME, RECORD)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_files_of_other_writers_are_read(codec: str) -> None:
    out = BytesIO()
    fastavro.writer(out, packaged_schema(NAME), [RECORD], codec=codec, metadata={"a": "b"})

    assert read_record(out.getvalue(), "p") == RECORD


@pytest.mark.parametrize("cut", [0, 3, 4, 9, 100, -17, -16, -1])
def test_a_file_cut_short_names_its_path(cut: int) -> None:
    data = write_record(NAME, RECORD)

    with pytest.raises(TableCorrupt) as error:
        read_record(data[:cut], ".hoodie/T.savepoint")
    assert error.value.facts["path"] == ".hoodie/T.savepoint"


def test_a_container_without_a_record_is_refused() -> None:
    out = BytesIO()
    fastavro.writer(out, packaged_schema(NAME), [])

    with pytest.raises(TableCorrupt):
        read_record(out.getvalue(), "p")


@pytest.mark.parametrize("change", [{"savepointedAt": "now"}, {"partitionMetadata": 1}])
def test_a_record_that_does_not_fit_is_never_written(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"does not fit {NAME}"):
        write_record(NAME, RECORD | change)


def test_a_missing_field_without_default_is_never_written() -> None:
    incomplete = {key: value for key, value in RECORD.items() if key != "comments"}

    with pytest.raises(ValueError, match="does not fit"):
        write_record(NAME, incomplete)
