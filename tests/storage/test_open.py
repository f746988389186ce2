from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import ConfigError
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.open import file_uri, normalize_root, open_storage


@pytest.mark.parametrize(
    ("given_path", "root"),
    [
        ("/data/t", "/data/t"),
        ("/data/t/", "/data/t"),
        ("//data//x/../t/.", "/data/t"),
        ("/", "/"),
        ("file:/data/t/", "/data/t"),
        ("file:///data/t", "/data/t"),
        ("FILE://localhost/data/t", "/data/t"),
        ("/with: a colon", "/with: a colon"),
        ("file:/Österreich/day=1/50% off", "/Österreich/day=1/50% off"),
        ("s3://bucket/a/b", "s3a://bucket/a/b"),
        ("s3n://bucket//a/b//", "s3a://bucket/a/b"),
        ("s3a://bucket", "s3a://bucket"),
        ("s3a://Bucket/", "s3a://Bucket"),
        ("hdfs://nn:8020//a/./b/", "hdfs://nn:8020/a/b"),
        ("HDFS:/a%20b", "hdfs:///a%20b"),
        (
            "abfss://box@account.dfs.core.windows.net/t",
            "abfss://box@account.dfs.core.windows.net/t",
        ),
    ],
)
def test_equal_places_have_one_spelling(given_path: str, root: str) -> None:
    assert normalize_root(given_path) == root
    assert normalize_root(root) == root


def test_a_percent_sign_in_a_path_is_itself_as_in_hadoop() -> None:
    assert normalize_root("file:///data/a%20b") == "/data/a%20b"
    assert normalize_root("s3a://bucket/a%20b") == "s3a://bucket/a%20b"


@pytest.mark.parametrize("path", ["trips", "./trips", "", "~/trips", "file:trips", "file:"])
def test_a_relative_path_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="not absolute") as refused:
        normalize_root(path)
    assert refused.value.facts["key"] == "path"


def test_a_path_in_the_home_folder_is_shown_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/data/ada")
    with pytest.raises(ConfigError, match="as in '/data/ada/trips'"):
        normalize_root("~/trips")


def test_a_file_uri_with_a_host_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"names the host 'data'.*file:///data/trips"):
        normalize_root("file://data/trips")


@pytest.mark.parametrize("path", ["s3a:/bucket/t", "s3a:///t", "s3://"])
def test_an_s3_path_without_a_bucket_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="names no bucket"):
        normalize_root(path)


def test_a_local_path_opens_local_storage() -> None:
    storage = open_storage("file:///data/trips/", {})

    assert isinstance(storage, LocalStorage)
    assert storage.root == "/data/trips"


@pytest.mark.parametrize(
    ("root", "path", "uri"),
    [
        ("/t", "", "file:///t"),
        ("/t", "p=1/a b.parquet", "file:///t/p=1/a%20b.parquet"),
        ("/50%", "ö#?.parquet", "file:///50%25/%C3%B6%23%3F.parquet"),
        ("/", "x", "file:///x"),
        ("s3a://bucket/t", "a b", "s3a://bucket/t/a%20b"),
        ("s3a://bucket", "", "s3a://bucket"),
        ("hdfs://nn:8020/50%", "a b", "hdfs://nn:8020/50%25/a%20b"),
    ],
)
def test_a_file_uri_escapes_what_java_does_not_take(root: str, path: str, uri: str) -> None:
    assert file_uri(root, path) == uri


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\\\0"), min_size=1))
def test_unescaping_a_file_uri_gives_the_path(name: str) -> None:
    if name in (".", ".."):
        name = "x"
    uri = urlsplit(file_uri("/t", name))

    assert unquote(uri.path) == f"/t/{name}"
    assert uri.scheme == "file"
    assert not uri.query
    assert not uri.fragment
