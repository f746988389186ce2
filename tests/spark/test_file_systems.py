"""Where a session's settings lead: storage and workers are told the same about a table's place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pyhudi.errors import ConfigError
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.spark.session import hadoop_filesystem, spark_runtime
from pyhudi.storage.hadoop import HadoopStorage


@pytest.fixture
def hadoop(spark: SparkSession) -> Iterator[dict[str, str]]:
    """Settings of Hadoop's for one test: what is put in here is told to the session at once."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()

    class Told(dict[str, str]):
        def __setitem__(self, key: str, value: str) -> None:
            conf.set(key, value)
            super().__setitem__(key, value)

    told = Told()
    yield told
    for key in told:
        conf.unset(key)


@pytest.mark.spark
def test_a_buckets_own_settings_reach_the_workers(
    spark: SparkSession, hadoop: dict[str, str]
) -> None:
    hadoop["fs.s3a.endpoint"] = "http://everybodys:9000"
    hadoop["fs.s3a.bucket.ours.endpoint"] = "https://own.example"
    hadoop["fs.s3a.bucket.ours.access.key"] = "k"
    hadoop["fs.s3a.bucket.ours.secret.key"] = "s"

    filesystem = spark_runtime(spark).filesystem

    place = {"scheme": "https", "endpoint_override": "own.example", "region": "us-east-1"}
    assert filesystem("s3a://ours/a/t") == (
        FileSystemSpec("s3", {"access_key": "k", "secret_key": "s", **place}),
        "ours/a/t",
    )
    place = {"scheme": "http", "endpoint_override": "everybodys:9000", "region": "us-east-1"}
    assert filesystem("s3a://theirs/t") == (FileSystemSpec("s3", place), "theirs/t")


@pytest.mark.spark
def test_a_credentials_provider_that_is_not_understood_is_refused_before_anything_happens(
    spark: SparkSession, hadoop: dict[str, str]
) -> None:
    hadoop["fs.s3a.aws.credentials.provider"] = "com.corp.VaultProvider"

    with pytest.raises(ConfigError, match=r"com\.corp\.VaultProvider"):
        spark.read.format("pyhudi").load("s3a://ours/t")


@pytest.mark.spark
def test_a_scheme_of_hadoops_is_reached_by_the_sessions_own_client(
    spark: SparkSession, hadoop: dict[str, str], tmp_path: object
) -> None:
    hadoop["fs.raw.impl"] = "org.apache.hadoop.fs.RawLocalFileSystem"

    storage = spark_runtime(spark).storage(f"raw:{tmp_path}/t")
    storage.put_if_absent("a/b", b"1")

    assert isinstance(storage, HadoopStorage)
    assert storage.root == f"raw://{tmp_path}/t"
    assert [file.path for file in storage.walk("")] == ["a/b"]


def test_pyarrow_is_told_the_cluster_with_its_scheme() -> None:
    assert hadoop_filesystem("hdfs://nn:8020/a b/t") == (
        FileSystemSpec("hdfs", {"host": "hdfs://nn:8020"}),
        "/a b/t",
    )
