"""From a table's path, as users and Spark write it, to its storage.

Paths follow Hadoop's ``Path``: the text after the scheme is taken as it is, so ``%20`` in a path
is three characters, as in ``spark.read.load``. Only ``file_uri`` escapes, for readers of URIs.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from pyhudi.clock import Clock
from pyhudi.errors import ConfigError, UnsupportedTable
from pyhudi.storage.base import Storage, checked
from pyhudi.storage.local import LocalStorage

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_S3_SCHEMES: Final = ("s3", "s3a", "s3n")
_URI_SIGNS: Final = "/-_.~!*'(),;:$&+=@"  # what java.net.URI takes in a path as it is


def open_storage(
    root_uri: str, hadoop_options: Mapping[str, str], clock: Clock | None = None
) -> Storage:
    """The storage of the table at ``root_uri``; nothing is read or made yet.

    ``hadoop_options`` are Hadoop's settings (``fs.s3a.*``). Errors: ``ConfigError`` for a path
    that is not absolute, ``UnsupportedTable`` for a file system that pyhudi does not speak.
    """
    root = normalize_root(root_uri)
    if root.startswith("/"):
        return LocalStorage(root, clock)
    # Only here: boto3 is optional, and its import takes longer than all of pyhudi's.
    from pyhudi.storage.s3 import S3Storage

    bucket = bucket_of(root)
    prefix = root.removeprefix(f"s3a://{bucket}")
    return S3Storage(bucket, prefix, hadoop_options, clock)


def normalize_root(uri: str) -> str:
    """The one spelling of a table's root: ``/absolute/path`` or ``s3a://bucket/prefix``.

    Equal places give equal texts: schemes, doubled and trailing slashes, ``.`` and ``..`` are
    resolved, nothing is percent-decoded (see the module). Errors as in ``open_storage``.
    """
    match = _SCHEME.fullmatch(uri)
    if match is None:
        if not uri.startswith("/"):
            raise ConfigError(
                f"The table path '{uri}' is not absolute. Write it in full, as in "
                f"'{os.path.abspath(uri)}'.",
                key="path",
            )
        return _clean(uri)
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return _local_root(uri, rest)
    if scheme in _S3_SCHEMES:
        return _s3_root(uri, rest)
    raise UnsupportedTable(
        f"pyhudi does not reach '{uri}': it keeps tables on local disks and on S3 so far, not on "
        f"'{scheme}:'.",
        feature=f"{scheme}: file system",
    )


def bucket_of(root: str) -> str:
    """The bucket in the normalized ``root`` of a table on S3."""
    return root.removeprefix("s3a://").partition("/")[0]


def file_uri(root: str, path: str) -> str:
    """The URI of the file ``path`` below the normalized ``root``, escaped as java.net.URI reads it.

    An empty ``path`` gives the URI of the root.
    """
    inside = checked(path)
    whole = f"{root.rstrip('/')}/{inside}" if inside else root
    start = "s3a://" if whole.startswith("s3a://") else "file://"
    return start + quote(os.fsencode(whole.removeprefix("s3a://")), safe=_URI_SIGNS)


def _local_root(uri: str, rest: str) -> str:
    host = ""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path
    if host not in ("", "localhost"):
        raise ConfigError(
            f"The table path '{uri}' names the host '{host}'. A local path has none: write "
            f"'file:///{host}{rest}' if '{host}' is a folder.",
            key="path",
        )
    if not rest.startswith("/"):
        raise ConfigError(
            f"The table path '{uri}' is not absolute. Write it in full, as in "
            "'file:///data/tables/trips'.",
            key="path",
        )
    return _clean(rest)


def _s3_root(uri: str, rest: str) -> str:
    bucket, _, prefix = rest.removeprefix("//").partition("/")
    if not rest.startswith("//") or not bucket:
        raise ConfigError(
            f"The table path '{uri}' names no bucket. Write 's3a://bucket/path/of/table'.",
            key="path",
        )
    return f"s3a://{bucket}{_clean('/' + prefix)}".rstrip("/")


def _clean(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))
