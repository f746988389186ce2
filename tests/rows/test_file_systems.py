"""The file systems that a spec opens, as far as they need no server."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from pyhudi.errors import UnsupportedTable
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.rows.task import error_from_text


def test_hdfs_without_its_native_library_is_refused_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", str(tmp_path))
    monkeypatch.delenv("HADOOP_HOME", raising=False)

    with pytest.raises(UnsupportedTable, match=r"'hdfs://nn:8020'.* libhdfs.*HADOOP_HOME") as no:
        FileSystemSpec("hdfs", {"host": "hdfs://nn:8020"}).open()

    assert no.value.facts["feature"] == "HDFS without libhdfs"
    assert isinstance(error_from_text(f"a worker said:\n{no.value!s}\n"), UnsupportedTable)


def test_secrets_do_not_show_in_the_text_of_a_spec() -> None:
    spec = FileSystemSpec("s3", {"access_key": "AKIAVISIBLE", "secret_key": "hush"})

    assert "AKIAVISIBLE" not in repr(spec)
    assert "hush" not in repr(spec)


def test_a_local_spec_opens_the_local_disk_and_an_unknown_kind_nothing() -> None:
    assert isinstance(FileSystemSpec().open(), fs.LocalFileSystem)
    with pytest.raises(ValueError, match="no file system of kind 'ftp'"):
        FileSystemSpec("ftp").open()
