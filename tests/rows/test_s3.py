"""Data files on an S3 endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from pyhudi.rows.bulk import bulk_write
from pyhudi.rows.groups import write_groups
from pyhudi.rows.spec import GROUP, PARTITION_COLUMN, FileSystemSpec, WriteSpec
from tests.rows.workers import T1, T2, plan_of, rows_of, run, spec, with_columns
from tests.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server, s3_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    folder = tmp_path_factory.mktemp("s3")
    with s3_server(folder) as running:
        yield running


def on_s3(server: S3Server, instant: str) -> WriteSpec:
    options = {
        "access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "region": "us-east-1",
        "endpoint_override": server.endpoint.removeprefix("http://"), "scheme": "http",
        "path_style": "true",
    }  # fmt: skip
    local = spec(Path(), instant)
    return replace(local, root=f"{BUCKET}/some/table", fs=FileSystemSpec("s3", options))


def test_files_markers_and_metadata_are_objects_and_folders_are_none(server: S3Server) -> None:
    write = on_s3(server, T1)
    table = rows_of([{"id": f"k{n}", "name": "old", "ts": 1} for n in range(100)])
    (first,) = run(bulk_write(write, "seed"), with_columns(table, **{PARTITION_COLUMN: "dt=1"}))
    incoming = with_columns(rows_of([{"id": "k7", "name": "new", "ts": 2}]), **{GROUP: 0})
    (second,) = run(write_groups(on_s3(server, T2), {0: plan_of(first)}), incoming)
    system = write.fs.open()
    merged = pq.read_table(f"{write.root}/{second['path']}", filesystem=system)
    assert dict(zip(merged["id"].to_pylist(), merged["name"].to_pylist(), strict=True)) == {
        f"k{n}": "new" if n == 7 else "old" for n in range(100)
    }
    found = system.get_file_info(fs.FileSelector(write.root, recursive=True))
    objects = {
        info.path.removeprefix(f"{write.root}/"): info.size for info in found if info.is_file
    }
    assert objects == {
        first["path"]: first["file_size_bytes"],
        second["path"]: second["file_size_bytes"],
        "dt=1/.hoodie_partition_metadata": objects["dt=1/.hoodie_partition_metadata"],
        f".hoodie/.temp/{T1}/{first['path']}.marker.CREATE": 0,
        f".hoodie/.temp/{T2}/{second['path']}.marker.MERGE": 0,
    }
    below = write.root.removeprefix(f"{BUCKET}/")
    client_view = {key for entry in listing(server) if (key := entry["Key"]).startswith(below)}
    assert client_view
    assert not [key for key in client_view if key.endswith("/")]


def test_a_small_file_is_one_request_and_no_multipart_upload(server: S3Server) -> None:
    write = on_s3(server, T1)
    with write.fs.open().open_output_stream(f"{BUCKET}/small/file") as stream:
        stream.write(b"few bytes")

    (small,) = (entry for entry in listing(server) if entry["Key"] == "small/file")
    # S3 marks what was uploaded in parts by the number of parts behind the hash.
    assert "-" not in small["ETag"]


def listing(server: S3Server) -> list[dict[str, Any]]:
    client = boto3.session.Session().client(
        "s3", endpoint_url=server.endpoint, region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
    )  # fmt: skip
    try:
        contents: list[dict[str, Any]] = client.list_objects_v2(Bucket=BUCKET)["Contents"]
        return contents
    finally:
        client.close()
