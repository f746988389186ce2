"""Which errors of boto3 prove that a put had no effect."""

from __future__ import annotations

from typing import Any

import pytest
from botocore import exceptions as aws

from pyhudi.errors import ConfigError, StorageError
from pyhudi.storage.s3 import S3Storage
from tests.fakes import FakeClock

KEYS = {"fs.s3a.access.key": "key", "fs.s3a.secret.key": "secret"}


def answered(status: int | None, code: str | None = None) -> aws.ClientError:
    """What boto3 raises for an answer; None for what the answer does not say."""
    response: dict[str, Any] = {}
    if code is not None:
        response["Error"] = {"Code": code}
    if status is not None:
        response["ResponseMetadata"] = {"HTTPStatusCode": status}
    return aws.ClientError(response, "PutObject")


class Answers:
    """boto3's client, as far as a put needs it: it raises ``errors``, the last of them for ever."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def put_object(self, **_: object) -> None:
        raise self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]


def put(*errors: Exception) -> StorageError:
    storage = S3Storage("bucket", "t", KEYS, FakeClock())
    storage._puts = Answers(*errors)
    with pytest.raises(StorageError) as failed:
        storage.put_if_absent("1.commit", b"")
    return failed.value


URL = {"endpoint_url": "https://s3.example"}

KNOWN = [
    answered(403, "AccessDenied"),
    answered(404, "NoSuchBucket"),
    answered(301, "PermanentRedirect"),
    answered(400, "RequestTimeout"),
    answered(409, "ConditionalRequestConflict"),
    answered(503, "SlowDown"),
    answered(None, "ThrottlingException"),
    aws.EndpointConnectionError(**URL),
    aws.ConnectTimeoutError(**URL),
    aws.ProxyConnectionError(proxy_url="http://proxy"),
    aws.CredentialRetrievalError(provider="p", error_msg="m"),
    aws.ParamValidationError(report="r"),
]
UNKNOWN = [
    answered(500, "InternalError"),
    answered(502),
    answered(200, "InternalError"),
    answered(None, "Mystery"),
    answered(None),
    aws.ReadTimeoutError(**URL),
    aws.ConnectionClosedError(**URL),
    aws.HTTPClientError(error="?"),
    aws.SSLError(error="bad record mac", **URL),
    aws.BotoCoreError(),
]


@pytest.mark.parametrize("error", KNOWN, ids=str)
def test_a_refusal_and_a_request_that_never_left_are_known_failures(error: Exception) -> None:
    assert put(error).had_no_effect


@pytest.mark.parametrize("error", UNKNOWN, ids=str)
def test_after_any_other_error_the_outcome_of_a_put_is_unknown(error: Exception) -> None:
    failed = put(error)
    assert not failed.had_no_effect
    assert "may have landed" in str(failed)


@pytest.mark.parametrize("error", KNOWN, ids=str)
def test_a_refusal_says_nothing_about_an_earlier_try_without_answer(error: Exception) -> None:
    assert not put(aws.ReadTimeoutError(**URL), error).had_no_effect


def test_an_error_that_is_none_of_botos_passes_as_it_is() -> None:
    storage = S3Storage("bucket", "t", KEYS, FakeClock())
    storage._puts = Answers(KeyError("ETag"))
    with pytest.raises(KeyError):
        storage.put_if_absent("1.commit", b"")


def test_missing_credentials_are_told_as_what_they_are() -> None:
    storage = S3Storage("bucket", "t", KEYS, FakeClock())
    storage._puts = Answers(aws.NoCredentialsError())
    with pytest.raises(ConfigError, match="no credentials"):
        storage.put_if_absent("1.commit", b"")
