"""The pyarrow file systems of tables on storage that needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyhudi.rows.spec import FileSystemSpec
from pyhudi.storage.open import bucket_of
from pyhudi.storage.s3_settings import arrow_options, s3_settings

#: a table's root -> the pyarrow file system of its data files, and the root's path on it
FileSystems = Callable[[str], tuple[FileSystemSpec, str]]


def filesystems(settings: Mapping[str, str]) -> FileSystems:
    """The file systems that need no Spark: local disks, and S3 with ``fs.s3a.*`` settings."""

    def of(root: str) -> tuple[FileSystemSpec, str]:
        if root.startswith("/"):
            return FileSystemSpec("local"), root
        options = arrow_options(s3_settings(bucket_of(root), settings))
        return FileSystemSpec("s3", options), root.removeprefix("s3a://")

    return of
