from __future__ import annotations

import pytest

from pyhudi.errors import ConfigError
from pyhudi.storage.s3_settings import S3Settings, arrow_options, option_names, s3_settings

KEYS = {"fs.s3a.access.key": "a", "fs.s3a.secret.key": "s"}
PROVIDERS = "fs.s3a.aws.credentials.provider"
HADOOP = "org.apache.hadoop.fs.s3a."
HADOOP_DEFAULT = (
    f"{HADOOP}TemporaryAWSCredentialsProvider,\n {HADOOP}SimpleAWSCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,"
    f"{HADOOP}auth.IAMInstanceCredentialsProvider"
)


def test_hadoop_options_become_settings_and_what_pyarrow_takes() -> None:
    settings = s3_settings(
        "b",
        {
            **KEYS,
            "fs.s3a.session.token": "t",
            "fs.s3a.endpoint": "minio:9000",
            "fs.s3a.connection.ssl.enabled": "FALSE",
            "fs.s3a.endpoint.region": "eu-central-1",
            "fs.s3a.path.style.access": "true",
        },
    )

    assert settings == S3Settings("a", "s", "t", False, "http://minio:9000", "eu-central-1", True)
    assert arrow_options(settings) == {
        "access_key": "a",
        "secret_key": "s",
        "session_token": "t",
        "scheme": "http",
        "endpoint_override": "minio:9000",
        "region": "eu-central-1",
        "path_style": "true",
    }


def test_a_buckets_own_options_go_first_and_sparks_spelling_is_understood() -> None:
    options = {
        "spark.hadoop.fs.s3a.endpoint": "store.example",
        "fs.s3a.bucket.b.endpoint": "own.example",
        "fs.s3a.bucket.b.access.key": "own",
        "fs.s3a.bucket.b.secret.key": "own-secret",
        "fs.s3a.bucket.other.path.style.access": "true",
        **KEYS,
    }

    assert s3_settings("b", options) == S3Settings(
        "own", "own-secret", endpoint="https://own.example", region="us-east-1"
    )
    assert s3_settings("c", options).endpoint == "https://store.example"
    assert s3_settings("c", options).access_key == "a"


def test_the_names_to_ask_for_are_those_that_are_heeded() -> None:
    names = option_names("b")
    asked: list[str] = []

    class Recorder(dict[str, str]):
        def get(self, key: str, default: str = "") -> str:  # type: ignore[override]
            asked.append(key)
            return default

    s3_settings("b", Recorder())

    heeded = {name for name in asked if not name.startswith("spark.hadoop.")}
    assert heeded <= set(names)
    assert {"fs.s3a.bucket.b.secret.key", "fs.s3a.secret.key"} <= heeded


def test_without_options_everything_is_left_to_the_aws_chain() -> None:
    assert s3_settings("b", {}) == S3Settings()
    assert arrow_options(S3Settings()) == {}


@pytest.mark.parametrize("present", ["access.key", "secret.key"])
def test_one_key_without_the_other_is_refused(present: str) -> None:
    with pytest.raises(ConfigError, match="is missing: set access.key and secret.key"):
        s3_settings("b", {f"fs.s3a.{present}": "x"})


@pytest.mark.parametrize(
    ("providers", "keys", "expected"),
    [
        (HADOOP + "SimpleAWSCredentialsProvider", KEYS, S3Settings("a", "s")),
        (HADOOP + "AnonymousAWSCredentialsProvider", {}, S3Settings(anonymous=True)),
        (HADOOP + "AnonymousAWSCredentialsProvider", KEYS, S3Settings(anonymous=True)),
        ("com.amazonaws.auth.DefaultAWSCredentialsProviderChain", KEYS, S3Settings()),
        (
            HADOOP_DEFAULT,
            {},
            S3Settings(),
        ),
    ],
)
def test_the_first_provider_that_has_something_gives_the_credentials(
    providers: str, keys: dict[str, str], expected: S3Settings
) -> None:
    assert s3_settings("b", {PROVIDERS: providers, **keys}) == expected


def test_anonymous_is_told_to_pyarrow_too() -> None:
    assert arrow_options(S3Settings(anonymous=True)) == {"anonymous": "true"}


def test_a_provider_that_nobody_here_can_stand_in_for_is_named() -> None:
    with pytest.raises(ConfigError, match=r"credentials from com\.corp\.VaultProvider"):
        s3_settings("b", {PROVIDERS: "com.corp.VaultProvider", **KEYS})


def test_a_provider_of_keys_without_keys_is_an_error_not_another_identity() -> None:
    with pytest.raises(ConfigError, match=r"fs\.s3a\.access\.key is not set"):
        s3_settings("b", {PROVIDERS: HADOOP + "SimpleAWSCredentialsProvider"})


def test_secrets_do_not_show_in_the_text_of_settings() -> None:
    settings = S3Settings("AKIAVISIBLE", "hush", "hush-token")

    assert "hush" not in repr(settings)
    assert "AKIAVISIBLE" not in repr(settings)
