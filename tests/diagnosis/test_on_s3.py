"""``pyhudi.why`` and ``pyhudi.health`` on an S3 endpoint: data files are read by ranges."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pyhudi
from pyhudi.storage.open import open_storage
from tests import golden_tables
from tests.s3_server import S3Server, s3_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


def test_a_table_on_s3_is_asked_without_spark(server: S3Server) -> None:
    root, settings = server.new_table(), server.hadoop_options
    storage = open_storage(root, settings)
    for path, data in golden_tables.BY_NAME["h120_v9-cow_part"].files().items():
        storage.put_if_absent(path, data)

    found = pyhudi.why(root, "2", hadoop_options=settings)
    assert [each.what.value for each in found] == ["inserted", "updated", "replaced", "now"]
    measures = {each.measure: each for each in pyhudi.health(root, hadoop_options=settings)}
    assert measures["overlap of key ranges"].value == 1
    assert "No lock file is held" in measures["lock"].detail
