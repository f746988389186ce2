"""A table in an S3 bucket, by boto3; the only module that imports it.

This module repeats requests; botocore never does (see ``patience``). Put-if-absent is
``If-None-Match: *``. If it is repeated after a lost reply, it may find its own object and take it
for another writer's. So each put carries a random mark, and a refusal after a lost reply checks
whose mark the object has. Secrets are passed to botocore and kept nowhere else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import ConfigError, FileExists, SetupError, StorageError
from pyhudi.storage.base import (
    NOTHING_KNOWN,
    Files,
    FileVersion,
    Folders,
    Known,
    StoredFile,
    checked,
)
from pyhudi.storage.names import is_listed
from pyhudi.storage.patience import Patience
from pyhudi.storage.s3_settings import S3Settings, s3_settings

try:
    import boto3
    import botocore.session
    from botocore import UNSIGNED
    from botocore import exceptions as aws
    from botocore.config import Config
    from botocore.loaders import create_loader
except ImportError:
    if not TYPE_CHECKING:
        boto3 = None

_BATCH: Final = 1_000  # the largest number of keys in one DeleteObjects request
_DELETERS: Final = 8  # batches deleted at the same time
_CONNECTIONS: Final = 32
_CONNECT_S: Final = 3
_READ_S: Final = 30
_PUT_ANSWER_S: Final = 7
_PUT_LIMIT_S: Final = 9.0  # no attempt begins later, so none has an effect after put_timeout_s
_LIMIT_S: Final = 60.0  # the same for all other requests
_MARK: Final = "pyhudi-put"  # user metadata: which put made this object
_ABSENT: Final = {"NoSuchKey", "404", "NotFound"}
_TAKEN: Final = {"PreconditionFailed", "412"}
# The request had no effect and may be sent again later.
_SLOW_DOWN: Final = {
    "SlowDown",
    "ServiceUnavailable",
    "503",
    "RequestLimitExceeded",
    "TooManyRequests",
    "Throttling",
    "ThrottlingException",
    "429",
}
_CLASH: Final = {"ConditionalRequestConflict", "OperationAborted", "409"}
_ONCE_MORE: Final = {*_SLOW_DOWN, *_CLASH, "InternalError", "RequestTimeout"}

_Answer = TypeVar("_Answer")


class S3Storage:
    """Objects below ``s3a://bucket/prefix``; options carry Hadoop's ``fs.s3a.*`` names.

    If the options have no keys, the usual AWS chain (environment, profile, instance role) gives the
    credentials. Errors: ``SetupError`` without boto3, ``ConfigError`` without credentials,
    ``StorageError`` with ``had_no_effect`` for a put that the store refused.
    """

    put_timeout_s = _PUT_LIMIT_S + _CONNECT_S + _PUT_ANSWER_S

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
        settings = s3_settings(bucket, options)
        session = _session()
        self._client = _client(session, settings, _READ_S)
        self._puts = _client(session, settings, _PUT_ANSWER_S)

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

        def look() -> bool:
            self._client.head_object(Bucket=self._bucket, Key=key)
            return True

        return self._ask("look for", key, look, absent=lambda error: False)

    def read(self, path: str) -> bytes:
        return self.read_version(path).data

    def read_version(self, path: str) -> FileVersion:
        key = self._key(path)

        def get() -> FileVersion:
            # The body is read within the attempt: if the connection breaks, it is tried again.
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            modified_ms = int(answer["LastModified"].timestamp() * 1_000)
            said = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
            now_ms = int(parsedate_to_datetime(said).timestamp() * 1_000) if said else modified_ms
            return FileVersion(answer["Body"].read(), answer["ETag"], now_ms, modified_ms)

        def absent(error: Exception) -> FileVersion:
            raise FileNotFoundError(self._uri(key)) from error

        return self._ask("read", key, get, absent)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._put("create", path, data, {"IfNoneMatch": "*"})

    def replace(self, path: str, data: bytes) -> None:
        self._put("replace", path, data, {})

    def swap(self, path: str, data: bytes, tag: str) -> None:
        self._put("replace", path, data, {"IfMatch": tag})

    def delete(self, paths: Iterable[str]) -> None:
        self._delete_keys(self._key(path) for path in paths)

    def delete_folder(self, folder: str) -> None:
        # This also deletes folder markers: S3A makes them as objects whose names end in a slash.
        pages = self._pages(self._key(folder, "/"), "")
        self._delete_keys(entry["Key"] for page in pages for entry in page.get("Contents", ()))

    def make_folder(self, folder: str) -> None:
        # As S3A does it: its clients see a folder where an object's name ends in a slash.
        self._put("make", folder, b"", {}, end="/")

    def delete_empty_folders(self, folder: str) -> None:
        pages = self._pages(self._key(folder, "/"), "")
        found = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        files = [key for key in found if not key.endswith("/")]
        held = {key[: end + 1] for key in files for end in range(len(key)) if key[end] == "/"}
        self._delete_keys(key for key in found if key.endswith("/") and key not in held)

    def _key(self, path: str, end: str = "") -> str:
        inside = checked(path)
        return self._base + inside + end if inside else self._base

    def _uri(self, key: str) -> str:
        return f"s3a://{self._bucket}/{key}"

    def _ask(
        self,
        verb: str,
        key: str,
        send: Callable[[], _Answer],
        absent: Callable[[Exception], _Answer] | None = None,
        patience: Patience | None = None,
    ) -> _Answer:
        """The answer to a repeatable request; for a missing key the answer is ``absent``'s."""
        patience = patience or Patience(self._clock, _LIMIT_S)
        while True:
            try:
                return send()
            except (aws.ClientError, aws.BotoCoreError) as error:
                if absent and isinstance(error, aws.ClientError) and _code(error) in _ABSENT:
                    return absent(error)
                if not _is_passing(error) or not patience.again(_is_throttled(error)):
                    raise self._failed(verb, key, error, patience) from error

    def _pages(self, prefix: str, delimiter: str) -> Iterator[dict[str, Any]]:
        wanted = {"Bucket": self._bucket, "Prefix": prefix, "Delimiter": delimiter}
        while True:
            page: dict[str, Any] = self._ask(
                "list", prefix, lambda: self._client.list_objects_v2(**wanted)
            )
            yield page
            following = page.get("NextContinuationToken")
            if not page.get("IsTruncated") or following is None:
                return
            wanted["ContinuationToken"] = following

    def _files(self, prefix: str, delimiter: str) -> Iterator[StoredFile]:
        for page in self._pages(prefix, delimiter):
            for entry in page.get("Contents", ()):
                key: str = entry["Key"]
                if not key.endswith("/") and is_listed(key.rsplit("/", 1)[-1]):
                    modified_ms = int(entry["LastModified"].timestamp() * 1_000)
                    yield StoredFile(key[len(self._base) :], entry["Size"], modified_ms)

    def _delete_keys(self, keys: Iterable[str]) -> None:
        """Delete in parallel batches; ``keys`` may still come from a running listing."""
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
        """Delete at most ``_BATCH`` keys; ``StorageError`` if the answer refuses some of them.

        A single file may be a lock, which belongs to another writer after its lease. So it is
        deleted within the time limit of a put, or not at all.
        """
        left = [*keys]
        single = len(left) == 1
        client = self._puts if single else self._client
        patience = Patience(self._clock, _PUT_LIMIT_S if single else _LIMIT_S)
        while left:
            wanted = {"Objects": [{"Key": key} for key in left], "Quiet": True}
            send = partial(client.delete_objects, Bucket=self._bucket, Delete=wanted)
            answer: dict[str, Any] = self._ask("delete", left[0], send, patience=patience)
            refused = [one for one in answer.get("Errors", ()) if one.get("Code") not in _ABSENT]
            left = [one["Key"] for one in refused]
            if not left:
                return
            codes = sorted({str(one.get("Code")) for one in refused})
            if not {*codes} <= _ONCE_MORE or not patience.again(not _SLOW_DOWN.isdisjoint(codes)):
                uri = self._uri(left[0])
                raise StorageError(
                    f"Cannot delete {len(left)} of {len(keys)} files, '{uri}' among them: "
                    f"{', '.join(codes)}{patience}.",
                    path=uri,
                )

    def _put(
        self, verb: str, path: str, data: bytes, condition: Mapping[str, str], end: str = ""
    ) -> None:
        key, mark = self._key(path, end), self._clock.uuid()
        if not checked(path):
            raise StorageError("An empty path names no file.", path=path, had_no_effect=True)
        patience = Patience(self._clock, _PUT_LIMIT_S)
        lost = False
        while True:
            try:
                self._puts.put_object(
                    Bucket=self._bucket, Key=key, Body=data, Metadata={_MARK: mark}, **condition
                )
                return
            except (aws.ClientError, aws.BotoCoreError) as error:
                if condition and _is_refusal(error):
                    if lost and self._mark_of(key) == mark:
                        return
                    what = "exists already" if "IfNoneMatch" in condition else "has changed"
                    raise FileExists(f"'{self._uri(key)}' {what}.", path=path) from error
                lost = lost or not _had_no_effect(error)
                if not _is_passing(error) or not patience.again(_is_throttled(error)):
                    raise self._failed(verb, key, error, patience, unknown=lost) from error

    def _mark_of(self, key: str) -> str | None:
        """The mark of the put that made the object; ``StorageError`` if that is unknown."""

        def look() -> str | None:
            answer = self._client.head_object(Bucket=self._bucket, Key=key)
            mark: str | None = answer["Metadata"].get(_MARK)
            return mark

        try:
            return self._ask("create", key, look, absent=lambda error: None)
        except StorageError as error:
            raise self._unanswered("create", key, str(error)) from error

    def _failed(
        self,
        verb: str,
        key: str,
        error: Exception,
        patience: Patience,
        *,
        unknown: bool = False,
    ) -> StorageError | ConfigError:
        uri = self._uri(key)
        if isinstance(error, (aws.NoCredentialsError, aws.PartialCredentialsError)):
            return ConfigError(
                f"There are no credentials for '{uri}'. Set spark.hadoop.fs.s3a.access.key and "
                "spark.hadoop.fs.s3a.secret.key, or the usual AWS environment or profile.",
                key="fs.s3a.access.key",
            )
        if unknown:
            return self._unanswered(verb, key, f"{_reason(error)}{patience}")
        hint = ""
        if _is_throttled(error):
            hint = " The store limits requests per second: write less at a time, or later."
        return StorageError(
            f"Cannot {verb} '{uri}': {_reason(error)}{patience}.{hint}",
            path=uri,
            had_no_effect=True,
        )

    def _unanswered(self, verb: str, key: str, reason: str) -> StorageError:
        uri = self._uri(key)
        return StorageError(
            f"The request to {verb} '{uri}' got no answer ({reason}): it may have landed. Look "
            "before you repeat it.",
            path=uri,
        )


@cache
def _service_models() -> Any:
    """botocore's description of S3: loading it takes most of the time to make a client."""
    return create_loader()


def _session() -> Any:
    """A new session: sessions keep credentials and must not be shared between threads."""
    core = botocore.session.get_session()
    core.register_component("data_loader", _service_models())
    return boto3.session.Session(botocore_session=core)


def _client(session: Any, settings: S3Settings, read_s: int) -> Any:
    config = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=read_s,
        retries={"mode": "standard", "total_max_attempts": 1},
        s3={"addressing_style": "path" if settings.path_style else "auto"},
        signature_version=UNSIGNED if settings.anonymous else None,
        max_pool_connections=_CONNECTIONS,
        # Stores other than AWS refuse the new checksum headers.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        return session.client(
            "s3",
            config=config,
            aws_access_key_id=settings.access_key,
            aws_secret_access_key=settings.secret_key,
            aws_session_token=settings.session_token,
            endpoint_url=settings.endpoint,
            region_name=settings.region,
        )
    except (aws.BotoCoreError, ValueError) as error:
        raise ConfigError(
            f"The S3 settings are wrong: {_reason(error)}.", key="fs.s3a.endpoint"
        ) from error


def _is_refusal(error: Exception) -> bool:
    """Whether the store says that a put's condition is false; for a swap the file must exist."""
    return isinstance(error, aws.ClientError) and _code(error) in _TAKEN | _ABSENT


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _is_throttled(error: Exception) -> bool:
    """Whether the store refused because of its load; such a request had no effect."""
    return isinstance(error, aws.ClientError) and _code(error) in _SLOW_DOWN


def _had_no_effect(error: Exception) -> bool:
    """Whether ``error`` proves that its request had no effect.

    The store refused it, or it was never sent: no connection, no credentials, wrong arguments.
    """
    if isinstance(error, aws.ClientError):
        return 300 <= _status(error) < 500 or _is_throttled(error)
    never_sent = (
        *(aws.EndpointConnectionError, aws.ConnectTimeoutError, aws.ProxyConnectionError),
        *(aws.NoCredentialsError, aws.PartialCredentialsError, aws.CredentialRetrievalError),
        *(aws.ParamValidationError, aws.BaseEndpointResolverError, aws.EndpointProviderError),
    )
    return isinstance(error, never_sent)


def _is_passing(error: Exception) -> bool:
    """Whether another attempt may succeed after ``error``."""
    if isinstance(error, aws.ClientError):
        return _status(error) >= 500 or _code(error) in _ONCE_MORE
    return isinstance(error, (aws.HTTPClientError, aws.ConnectionError, aws.IncompleteReadError))


def _reason(error: Exception) -> str:
    """What went wrong, without secrets of the request."""
    if isinstance(error, aws.ClientError):
        hint = {403: " (check keys and bucket policy)"}.get(_status(error), "")
        return f"{_code(error)}, HTTP {_status(error)}{hint}"
    return f"{type(error).__name__}: {error}".rstrip(": .")
