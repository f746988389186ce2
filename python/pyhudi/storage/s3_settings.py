"""Hadoop's ``fs.s3a.*`` options for one bucket, in one form for boto3 and pyarrow.

``fs.s3a.bucket.<bucket>.*`` wins over ``fs.s3a.*``, as in Hadoop. The AWS chain gives what is not
set. Secrets are never part of the value's text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyhudi.errors import ConfigError

S3A: Final = "fs.s3a."
PROVIDERS: Final = "aws.credentials.provider"
#: the options that ``s3_settings`` reads, without their prefix ``fs.s3a.``
OPTIONS: Final = (
    "access.key",
    "secret.key",
    "session.token",
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "connection.ssl.enabled",
    PROVIDERS,
)

_KEYS: Final = {"SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider"}
_ANONYMOUS: Final = {"AnonymousAWSCredentialsProvider", "AnonymousCredentialsProvider"}
# For all of these boto3 and pyarrow use the same chain, and take its first credentials.
_CHAIN: Final = {
    "ContainerCredentialsProvider",
    "DefaultAWSCredentialsProviderChain",
    "DefaultCredentialsProvider",
    "EC2ContainerCredentialsProviderWrapper",
    "EnvironmentVariableCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "ProfileCredentialsProvider",
    "WebIdentityTokenCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
}


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach one bucket. Without keys the AWS chain is used, unless it is anonymous.

    ``endpoint`` is a URL; None means AWS itself.
    """

    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    anonymous: bool = False
    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False


def option_names(bucket: str) -> list[str]:
    """The names of all options that ``s3_settings`` reads, the bucket's own first."""
    return [start + name for start in (f"{S3A}bucket.{bucket}.", S3A) for name in OPTIONS]


def s3_settings(bucket: str, options: Mapping[str, str]) -> S3Settings:
    """The settings of ``bucket``; names may also have a leading ``spark.hadoop.``.

    ``ConfigError`` if one of the two keys is missing, or for a credentials provider that neither
    boto3 nor pyarrow can replace.
    """

    def option(name: str) -> str | None:
        for start in (f"{S3A}bucket.{bucket}.", S3A):
            for key in (start + name, f"spark.hadoop.{start}{name}"):
                if value := options.get(key, "").strip():
                    return value
        return None

    def flag(name: str, default: bool) -> bool:
        return (option(name) or str(default)).lower() == "true"

    access, secret = option("access.key"), option("secret.key")
    if bool(access) != bool(secret):
        missing = "fs.s3a.secret.key" if access else "fs.s3a.access.key"
        raise ConfigError(
            f"The option {missing} is missing: set access.key and secret.key together.", key=missing
        )
    token = option("session.token")
    source = _source(option(PROVIDERS) or "", bool(access))
    if source != "keys":
        access = secret = token = None
    endpoint = option("endpoint")
    if endpoint and "://" not in endpoint:
        endpoint = f"{'https' if flag('connection.ssl.enabled', True) else 'http'}://{endpoint}"
    return S3Settings(
        access_key=access,
        secret_key=secret,
        session_token=token,
        anonymous=source == "anonymous",
        endpoint=endpoint,
        # Stores other than AWS accept any region, but clients need one.
        region=option("endpoint.region") or ("us-east-1" if endpoint else None),
        path_style=flag("path.style.access", False),
    )


def _source(providers: str, has_keys: bool) -> str:
    """The source of credentials, in the order of the list: "keys", "chain" or "anonymous"."""
    classes = [part.strip() for part in providers.split(",") if part.strip()]
    for full_name in classes:
        name = full_name.rsplit(".", 1)[-1]
        if name in _KEYS:
            if has_keys:
                return "keys"
        elif name in _ANONYMOUS:
            return "anonymous"
        elif name in _CHAIN:
            return "chain"
        else:
            raise ConfigError(
                f"pyhudi cannot take credentials from {full_name}. In {S3A}{PROVIDERS} it supports "
                "keys (SimpleAWSCredentialsProvider, TemporaryAWSCredentialsProvider), the AWS "
                "chain (DefaultAWSCredentialsProviderChain and its members) and "
                "AnonymousAWSCredentialsProvider. Name one of these.",
                key=S3A + PROVIDERS,
            )
    if classes and not has_keys:
        raise ConfigError(
            f"{S3A}{PROVIDERS} names only {', '.join(classes)}, but {S3A}access.key is not set. "
            "Set the keys, or name another provider.",
            key=S3A + "access.key",
        )
    return "keys" if has_keys else "chain"


def arrow_options(settings: S3Settings) -> dict[str, str]:
    """The same settings for ``pyarrow.fs.S3FileSystem``, all as text."""
    found = {
        "access_key": settings.access_key,
        "secret_key": settings.secret_key,
        "session_token": settings.session_token,
        "region": settings.region,
        "path_style": "true" if settings.path_style else None,
        "anonymous": "true" if settings.anonymous else None,
    }
    if settings.endpoint:
        found["scheme"], _, found["endpoint_override"] = settings.endpoint.partition("://")
    return {name: value for name, value in found.items() if value}
