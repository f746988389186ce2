"""A table in an S3 bucket, by boto3; the only module that imports it.

Put-if-absent is ``If-None-Match: *``. botocore must not repeat such a request by itself: a
repetition after a lost reply would find our own object and call it somebody else's. So the
repetition is ours: each put carries a random mark, and a refusal that follows a lost reply looks
whose mark the object bears. Secrets are handed to botocore and kept nowhere else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import ConfigError, FileExists, SetupError, StorageError
from pyhudi.storage.base import (
    NOTHING_KNOWN,
    Files,
    Folders,
    Known,
    StoredFile,
    checked,
)
from pyhudi.storage.names import is_listed

try:
    import boto3
    import botocore.session
    from botocore import exceptions as aws
    from botocore.config import Config
    from botocore.loaders import create_loader
except ImportError:
    if not TYPE_CHECKING:
        boto3 = None

_BATCH: Final = 1_000  # the most keys that one DeleteObjects request takes
_DELETERS: Final = 8  # batches deleted at a time
_CONNECT_S: Final = 3
_READ_S: Final = 30
_PUT_ANSWER_S: Final = 7
_PUT_ATTEMPTS: Final = 5
_PUT_DEADLINE_S: Final = 5.0  # no attempt begins later, so none has an effect after put_timeout_s
_MARK: Final = "pyhudi-put"  # user metadata: which put made this object
_ABSENT = {"NoSuchKey", "404", "NotFound"}
_TAKEN = {"PreconditionFailed", "412"}
_TRY_AGAIN = {"SlowDown", "ConditionalRequestConflict", "409", "ServiceUnavailable", "503"}


class S3Storage:
    """Objects below ``s3a://bucket/prefix``; options carry Hadoop's ``fs.s3a.*`` names.

    Without keys among the options the usual AWS chain (environment, profile, instance role)
    gives the credentials. Errors: ``SetupError`` without boto3, ``ConfigError`` without any
    credentials, ``StorageError`` with ``outcome="unknown"`` for a put that got no answer.
    """

    put_timeout_s = _PUT_DEADLINE_S + _CONNECT_S + _PUT_ANSWER_S

    def __init__(
        self,
        bucket: str,
        prefix: str,
        options: Mapping[str, str],
        clock: Clock | None = None,
    ) -> None:
        if boto3 is None:
            raise SetupError(
                "A table on S3 needs the package boto3. Install it: pip install 'pyhudi[s3]'."
            )
        self._bucket = bucket
        self._prefix = prefix.strip("/")
        self._base = f"{self._prefix}/" if self._prefix else ""
        self._clock = clock or SystemClock()
        settings = client_settings(bucket, options)
        session = _session()
        self._client = _client(session, settings, _READ_S, attempts=5)
        self._single = _client(session, settings, _PUT_ANSWER_S, attempts=1)

    @property
    def root(self) -> str:
        return f"s3a://{self._bucket}/{self._prefix}".rstrip("/")

    def __repr__(self) -> str:
        return f"S3Storage({self.root!r})"

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        return sorted(self._files(self._key(folder, "/"), "/"), key=lambda file: file.path)

    def list_folders(self, folder: str) -> Folders:
        pages = self._pages(self._key(folder, "/"), "/")
        found = (common["Prefix"] for page in pages for common in page.get("CommonPrefixes", ()))
        return sorted(prefix[len(self._base) :].rstrip("/") for prefix in found)

    def walk(self, folder: str) -> Files:
        return sorted(self._files(self._key(folder, "/"), ""), key=lambda file: file.path)

    def exists(self, path: str) -> bool:
        key = self._key(path)
        try:
            self._client.head_object(Bucket=self._bucket, Key=key)
        except aws.ClientError as error:
            if _code(error) in _ABSENT:
                return False
            raise self._failed("look for", key, error) from error
        except aws.BotoCoreError as error:
            raise self._failed("look for", key, error) from error
        return True

    def read(self, path: str) -> bytes:
        key = self._key(path)
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            data: bytes = answer["Body"].read()
        except (aws.ClientError, aws.BotoCoreError) as error:
            if isinstance(error, aws.ClientError) and _code(error) in _ABSENT:
                raise FileNotFoundError(self._uri(key)) from error
            raise self._failed("read", key, error) from error
        return data

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._put("create", path, data, {"IfNoneMatch": "*"})

    def replace(self, path: str, data: bytes) -> None:
        self._put("replace", path, data, {})

    def delete(self, paths: Iterable[str]) -> None:
        self._delete_keys(self._key(path) for path in paths)

    def delete_folder(self, folder: str) -> None:
        # Folder markers, which S3A makes as objects whose name ends in a slash, go as well.
        pages = self._pages(self._key(folder, "/"), "")
        self._delete_keys(entry["Key"] for page in pages for entry in page.get("Contents", ()))

    def _key(self, path: str, end: str = "") -> str:
        inside = checked(path)
        return self._base + inside + end if inside else self._base

    def _uri(self, key: str) -> str:
        return f"s3a://{self._bucket}/{key}"

    def _pages(self, prefix: str, delimiter: str) -> Iterator[dict[str, Any]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=prefix, Delimiter=delimiter
        )
        try:
            yield from pages
        except (aws.ClientError, aws.BotoCoreError) as error:
            raise self._failed("list", prefix, error) from error

    def _files(self, prefix: str, delimiter: str) -> Iterator[StoredFile]:
        for page in self._pages(prefix, delimiter):
            for entry in page.get("Contents", ()):
                key: str = entry["Key"]
                if not key.endswith("/") and is_listed(key.rsplit("/", 1)[-1]):
                    modified_ms = int(entry["LastModified"].timestamp() * 1_000)
                    yield StoredFile(key[len(self._base) :], entry["Size"], modified_ms)

    def _delete_keys(self, keys: Iterable[str]) -> None:
        """Delete in batches, many at a time beside each other; ``keys`` may still be listed."""
        rest = iter(keys)
        batch = list(islice(rest, _BATCH))
        if len(batch) < _BATCH:
            self._delete_batch(batch)
            return
        running: deque[Future[None]] = deque()
        with ThreadPoolExecutor(_DELETERS) as pool:
            while batch:
                running.append(pool.submit(self._delete_batch, batch))
                if len(running) > 2 * _DELETERS:
                    running.popleft().result()
                batch = list(islice(rest, _BATCH))
            for one in running:
                one.result()

    def _delete_batch(self, keys: Sequence[str]) -> None:
        if not keys:
            return
        wanted = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        try:
            answer = self._client.delete_objects(Bucket=self._bucket, Delete=wanted)
        except (aws.ClientError, aws.BotoCoreError) as error:
            raise self._failed("delete", keys[0], error) from error
        for refused in answer.get("Errors", ()):
            raise StorageError(
                f"Cannot delete '{self._uri(refused['Key'])}': {refused.get('Code')}.",
                path=self._uri(refused["Key"]),
            )

    def _put(self, verb: str, path: str, data: bytes, condition: Mapping[str, str]) -> None:
        key, mark = self._key(path), self._clock.uuid()
        if not checked(path):
            raise StorageError("An empty path names no file.", path=path)
        give_up = self._clock.monotonic() + _PUT_DEADLINE_S
        lost = False
        for attempt in range(_PUT_ATTEMPTS):
            try:
                self._single.put_object(
                    Bucket=self._bucket, Key=key, Body=data, Metadata={_MARK: mark}, **condition
                )
                return
            except (aws.ClientError, aws.BotoCoreError) as error:
                if condition and isinstance(error, aws.ClientError) and _code(error) in _TAKEN:
                    if lost and self._mark_of(key) == mark:
                        return
                    raise FileExists(f"'{self._uri(key)}' exists already.", path=path) from error
                last = error
            lost = lost or _may_have_landed(last)
            pause = self._clock.random_int(100 * 2**attempt) / 1_000
            if not _is_passing(last) or self._clock.monotonic() + pause >= give_up:
                break
            self._clock.sleep(pause)
        raise self._failed(verb, key, last, unknown=lost) from last

    def _mark_of(self, key: str) -> str | None:
        try:
            answer = self._client.head_object(Bucket=self._bucket, Key=key)
        except aws.ClientError as error:
            if _code(error) in _ABSENT:
                return None
            raise self._failed("create", key, error, unknown=True) from error
        except aws.BotoCoreError as error:
            raise self._failed("create", key, error, unknown=True) from error
        mark: str | None = answer["Metadata"].get(_MARK)
        return mark

    def _failed(
        self, verb: str, key: str, error: Exception, *, unknown: bool = False
    ) -> StorageError | ConfigError:
        uri = self._uri(key)
        if isinstance(error, (aws.NoCredentialsError, aws.PartialCredentialsError)):
            return ConfigError(
                f"There are no credentials for '{uri}'. Set spark.hadoop.fs.s3a.access.key and "
                "spark.hadoop.fs.s3a.secret.key, or the usual AWS environment or profile.",
                key="fs.s3a.access.key",
            )
        if unknown:
            return StorageError(
                f"The request to {verb} '{uri}' got no answer ({_reason(error)}): it may have "
                "landed. Look before you repeat it.",
                path=uri,
                outcome="unknown",
            )
        return StorageError(f"Cannot {verb} '{uri}': {_reason(error)}.", path=uri)


def client_settings(bucket: str, options: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of ``boto3.client`` for Hadoop's ``fs.s3a.*`` options.

    ``fs.s3a.bucket.<bucket>.*`` goes before ``fs.s3a.*``, as in Hadoop. What is not set is left
    to the AWS chain. Both names and names with a leading ``spark.hadoop.`` are understood.
    """

    def option(name: str) -> str | None:
        for start in (f"fs.s3a.bucket.{bucket}.", "fs.s3a."):
            for key in (start + name, f"spark.hadoop.{start}{name}"):
                if value := options.get(key, "").strip():
                    return value
        return None

    access, secret = option("access.key"), option("secret.key")
    if bool(access) != bool(secret):
        missing = "fs.s3a.secret.key" if access else "fs.s3a.access.key"
        raise ConfigError(f"The option {missing} is missing beside its partner.", key=missing)
    endpoint = option("endpoint")
    if endpoint and "://" not in endpoint:
        secure = (option("connection.ssl.enabled") or "true").lower() != "false"
        endpoint = f"{'https' if secure else 'http'}://{endpoint}"
    path_style = (option("path.style.access") or "false").lower() == "true"
    # Stores other than AWS take any region, but botocore wants one.
    region = option("endpoint.region") or ("us-east-1" if endpoint else None)
    return {
        "aws_access_key_id": access,
        "aws_secret_access_key": secret,
        "aws_session_token": option("session.token"),
        "endpoint_url": endpoint,
        "region_name": region,
        "path_style": path_style,
    }


@cache
def _service_models() -> Any:
    """botocore's descriptions of S3: by far the longest part of making a client."""
    return create_loader()


def _session() -> Any:
    """A new session, as they are not safe to share between threads and remember credentials."""
    core = botocore.session.get_session()
    core.register_component("data_loader", _service_models())
    return boto3.session.Session(botocore_session=core)


def _client(session: Any, settings: Mapping[str, Any], read_s: int, attempts: int) -> Any:
    arguments = dict(settings)
    style = "path" if arguments.pop("path_style") else "auto"
    config = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=read_s,
        retries={"mode": "standard", "total_max_attempts": attempts},
        s3={"addressing_style": style},
        max_pool_connections=32,
        # Stores other than AWS refuse the newer checksum headers.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        return session.client("s3", config=config, **arguments)
    except (aws.BotoCoreError, ValueError) as error:
        raise ConfigError(
            f"The S3 settings do not fit: {_reason(error)}.", key="fs.s3a.endpoint"
        ) from error


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _may_have_landed(error: Exception) -> bool:
    """Whether a put that ended in ``error`` may have had its effect."""
    if isinstance(error, aws.ClientError):
        return _status(error) >= 500 and _code(error) not in _TRY_AGAIN
    return isinstance(error, aws.HTTPClientError)


def _is_passing(error: Exception) -> bool:
    """Whether a put that ended in ``error`` is worth another attempt."""
    if isinstance(error, aws.ClientError):
        return _status(error) >= 500 or _code(error) in _TRY_AGAIN
    return isinstance(error, (aws.HTTPClientError, aws.ConnectionError))


def _reason(error: Exception) -> str:
    """What went wrong, without anything secret that the request carried."""
    if isinstance(error, aws.ClientError):
        hint = {403: " (check keys and bucket policy)"}.get(_status(error), "")
        return f"{_code(error)}, HTTP {_status(error)}{hint}"
    return f"{type(error).__name__}: {error}".rstrip(": .")
