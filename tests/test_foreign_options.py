from __future__ import annotations

import pytest

from pyhudi.config import resolve_read
from pyhudi.errors import ConfigError
from pyhudi.option_names import refuse_unknown_write


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("replaceWhere", "dt = 'x'"),
        ("replacewhere", "dt = 'x'"),
        ("replaceOn", "t.id = s.id"),
        ("replaceUsing", "id"),
        ("overwriteSchema", "true"),
        ("mergeSchema", "false"),
        ("txnAppId", "job"),
        ("txnVersion", "3"),
        ("overwrite-mode", "dynamic"),
        ("dynamic-partition-overwrite", "true"),
        ("branch", "audit"),
        ("isolation-level", "snapshot"),
        ("validate-from-snapshot-id", "7"),
    ],
)
def test_what_another_format_would_heed_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"'{key}' is not a pyhudi option.*Nothing was written"):
        refuse_unknown_write({key: value})


def test_what_pyhudi_does_anyhow_passes_and_so_does_what_changes_no_row() -> None:
    refuse_unknown_write({"mergeSchema": "True", "overwriteSchema": "false", "branch": "main"})
    refuse_unknown_write({"hoodie.replace.where": "x"})


def test_metadata_of_the_commit_is_nobodys_option() -> None:
    refuse_unknown_write({"_branch": "audit"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("readChangeFeed", "true"),
        ("startingVersion", "1"),
        ("endingTimestamp", "2024-01-01"),
        ("start-snapshot-id", "7"),
        ("branch", "audit"),
        ("tag", "v1"),
        ("pathGlobFilter", "*.parquet"),
        ("modifiedAfter", "2024-01-01T00:00:00"),
        ("ignoreMissingFiles", "true"),
        ("ignoreCorruptFiles", "true"),
    ],
)
def test_a_read_refuses_what_would_show_other_rows(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"'{key}' is not a pyhudi option.*other rows"):
        resolve_read({key: value})
    resolve_read({}, {key: value})


def test_a_read_passes_over_what_shows_the_same_rows() -> None:
    resolve_read({"readChangeFeed": "false", "branch": "main", "mergeSchema": "true"})


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("compression", "hoodie.parquet.compression.codec"),
        ("header", "knows its columns"),
        ("mode", r"df.write.mode\('append'\)"),
        ("comment", "COMMENT ON TABLE"),
        ("fs.s3a.access.key", "spark.hadoop.fs.s3a.access.key"),
        ("fs.s3a.bucket.b.endpoint", "spark.hadoop.fs.s3a.bucket.b.endpoint"),
    ],
)
def test_an_option_of_other_sources_says_what_serves_here(key: str, advice: str) -> None:
    for refuse in (lambda: refuse_unknown_write({key: "x"}), lambda: resolve_read({key: "x"})):
        with pytest.raises(ConfigError, match=f"'{key}' is an option of other.*{advice}"):
            refuse()
