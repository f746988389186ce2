"""Opens the storage of a table from its path, as users and Spark write it.

Paths follow Hadoop's ``Path``: the text after the scheme is not decoded, so ``%20`` in a path is
three characters, as in ``spark.read.load``. Only ``file_uri`` escapes, for code that parses URIs.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from pyhudi.clock import Clock
from pyhudi.errors import ConfigError, UnsupportedTable
from pyhudi.storage.base import Storage, checked
from pyhudi.storage.hadoop import NO_ATOMIC_RENAME, HadoopFiles, HadoopStorage
from pyhudi.storage.local import LocalStorage

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_S3_SCHEMES: Final = ("s3", "s3a", "s3n")
_WEB: Final = ("http", "https", "ftp", "sftp")
_URI_SIGNS: Final = "/-_.~!*'(),;:$&+=@"  # java.net.URI does not escape these in a path


def open_storage(
    root_uri: str,
    hadoop_options: Mapping[str, str],
    clock: Clock | None = None,
    hadoop: Callable[[str], HadoopFiles] | None = None,
) -> Storage:
    """The storage of the table at ``root_uri``; nothing is read or made yet.

    ``hadoop_options`` are Hadoop's settings (``fs.s3a.*``); ``hadoop`` opens a folder through the
    client of a JVM, if there is one. Errors: ``ConfigError`` for a path that is not absolute,
    ``UnsupportedTable`` for a file system that cannot be reached or is not safe.
    """
    root = normalize_root(root_uri)
    if root.startswith("/"):
        return LocalStorage(root, clock)
    if not root.startswith("s3a://"):
        return _by_hadoop(root, hadoop, clock)
    # Imported only here: boto3 is optional, and its import takes longer than all of pyhudi's.
    from pyhudi.storage.s3 import S3Storage

    bucket = bucket_of(root)
    prefix = root.removeprefix(f"s3a://{bucket}")
    return S3Storage(bucket, prefix, hadoop_options, clock)


def _by_hadoop(
    root: str, hadoop: Callable[[str], HadoopFiles] | None, clock: Clock | None
) -> Storage:
    scheme = root.partition(":")[0]
    if scheme in _WEB:
        raise UnsupportedTable(
            f"'{root}' is an address of the web, where no folder can be listed. Give the path of "
            "the table on a file system, such as s3a://bucket/path.",
            feature=f"{scheme}: file system",
        )
    if scheme in NO_ATOMIC_RENAME:
        raise UnsupportedTable(
            f"pyhudi does not keep tables on '{scheme}:' ('{root}'): a rename there copies and "
            "deletes, so two writers might both commit, and neither would notice. Use local disks, "
            "S3, HDFS or a file system with atomic renames.",
            feature=f"{scheme}: file system",
        )
    if hadoop is None:
        raise UnsupportedTable(
            f"Only a Spark session reaches '{root}', through Hadoop's client. Without a session "
            "pyhudi opens tables on local disks and on S3.",
            feature=f"{scheme}: file system without Spark",
        )
    files = hadoop(root)
    path = root.partition("://")[2].partition("/")[2]
    return HadoopStorage(f"{scheme}://{files.authority()}/{path}", files, clock)


def normalize_root(uri: str) -> str:
    """The one spelling of a table's root: ``/absolute/path``, ``s3a://bucket/prefix`` or a URI.

    Equal places give equal texts: schemes, double and trailing slashes, ``.`` and ``..`` are
    resolved; nothing is percent-decoded (see the module). Errors as in ``open_storage``.
    """
    match = _SCHEME.fullmatch(uri)
    if match is None:
        if not uri.startswith("/"):
            raise ConfigError(
                f"The table path '{uri}' is not absolute. Write it in full, as in "
                f"'{os.path.abspath(os.path.expanduser(uri))}'.",
                key="path",
            )
        return _clean(uri)
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return _local_root(uri, rest)
    if scheme in _S3_SCHEMES:
        return _s3_root(uri, rest)
    return _hadoop_root(uri, scheme, rest)


def bucket_of(root: str) -> str:
    """The bucket in the normalized ``root`` of a table on S3."""
    return root.removeprefix("s3a://").partition("/")[0]


def file_uri(root: str, path: str) -> str:
    """The URI of the file ``path`` below the normalized ``root``, escaped for java.net.URI.

    An empty ``path`` gives the URI of the root.
    """
    inside = checked(path)
    whole = f"{root.rstrip('/')}/{inside}" if inside else root
    start, found, rest = whole.partition("://")
    if whole.startswith("/") or not found:
        start, rest = "file", whole
    return f"{start}://" + quote(os.fsencode(rest), safe=_URI_SIGNS)


def _local_root(uri: str, rest: str) -> str:
    host = ""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path
    if host not in ("", "localhost"):
        raise ConfigError(
            f"The table path '{uri}' names the host '{host}', but a local path has no host. Write "
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


def _hadoop_root(uri: str, scheme: str, rest: str) -> str:
    authority = ""
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    if not rest.startswith("/"):
        raise ConfigError(
            f"The table path '{uri}' is not absolute. Write it in full, as in "
            f"'{scheme}://host/data/trips'.",
            key="path",
        )
    return f"{scheme}://{authority}{_clean(rest)}"


def _clean(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))
