"""The lock of Hudi's ``DynamoDBBasedLockProvider``: an item of a DynamoDB table, by boto3.

Laid out as Amazon's lock client does, which Hudi uses: the item of partition key ``key`` has
``ownerName``, ``leaseDuration`` (milliseconds, as text), ``recordVersionNumber`` (new with every
write) and ``data``, which a holder of that client may fill freely and where we put our owner. A
free lock has no item, or one with ``isReleased``. A waiter waits until it has seen one version for
the whole lease that this declares, by its own clock: a rule that also works with Hudi's writers.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import ConfigError, SetupError, StorageError
from pyhudi.lock_options import LockOptions
from pyhudi.locks.owner_text import owner_facts, owner_of
from pyhudi.locks.register import Entry, Record

try:
    import boto3
    from botocore import exceptions as aws
    from botocore.config import Config
except ImportError:
    if not TYPE_CHECKING:
        boto3 = aws = None

__all__ = ["KEY", "DynamoRegister", "DynamoTable", "aws", "open_client"]

KEY: Final = "key"
_OWNER, _LEASE, _VERSION, _DATA = "ownerName", "leaseDuration", "recordVersionNumber", "data"
_RELEASED: Final = "isReleased"
_CONNECT_S: Final = 3
_ANSWER_S: Final = 5
_POLL_S: Final = 1.0

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class DynamoTable:
    """The DynamoDB table of the locks, and how to make it if it does not exist."""

    name: str
    region: str
    endpoint_url: str | None
    billing: Mapping[str, Any]
    creation_timeout_s: float

    @classmethod
    def of(cls, options: LockOptions, name: str) -> DynamoTable:
        """The table that ``options`` describe, called ``name``."""
        billing: dict[str, Any] = {"BillingMode": options.dynamodb_billing_mode.value}
        if options.dynamodb_billing_mode.value == "PROVISIONED":
            billing["ProvisionedThroughput"] = {
                "ReadCapacityUnits": options.dynamodb_read_capacity,
                "WriteCapacityUnits": options.dynamodb_write_capacity,
            }
        return cls(
            name,
            options.dynamodb_region or os.environ.get("AWS_REGION", "us-east-1"),
            options.dynamodb_endpoint_url,
            billing,
            options.dynamodb_creation_timeout_ms / 1_000,
        )


class DynamoRegister:
    """A ``Register`` in the item ``partition_key`` of ``table``, which is made at first use."""

    def __init__(self, table: DynamoTable, partition_key: str, clock: Clock | None = None) -> None:
        self._table = table
        self._id = {KEY: {"S": partition_key}}
        self._clock = clock or SystemClock()
        # A request that is repeated after a lost reply would meet our own version and be refused.
        self._client = open_client(table, "The DynamoDB lock", attempts=1)
        self._is_there = False

    def beside(self, name: str) -> DynamoRegister:
        """Another item of the same table, ``<this one's key>/<name>``, on the same connections."""
        other = copy.copy(self)
        other._id = {KEY: {"S": f"{self._id[KEY]['S']}/{name}"}}
        return other

    @property
    def where(self) -> str:
        return f"'{self._id[KEY]['S']}' in the DynamoDB table {self._table.name}"

    def read(self) -> Record | None:
        self.make_table()
        answer = self._ask(
            "read",
            lambda: self._client.get_item(
                TableName=self._table.name, Key=self._id, ConsistentRead=True
            ),
        )
        item = answer.get("Item")
        return _record(item) if item else None

    def write(self, entry: Entry, after: Record | None) -> bool:
        facts = {**owner_facts(entry.owner, entry.since_ms), "token": entry.token}
        version = self._clock.uuid()
        item = {
            **self._id,
            _OWNER: {"S": f"pyhudi-{entry.owner.host}-{entry.token}"},
            _LEASE: {"S": str(int(entry.lease_s * 1_000))},
            _VERSION: {"S": version},
            _DATA: {"B": json.dumps({**facts, "version": version}).encode()},
        }
        return self._change("write", after, lambda guard: self._put(item, guard))

    def clear(self, held: Record) -> None:
        self._change(
            "release",
            held,
            lambda guard: self._client.delete_item(
                TableName=self._table.name, Key=self._id, **guard
            ),
        )

    def _put(self, item: dict[str, Any], guard: dict[str, Any]) -> Any:
        return self._client.put_item(TableName=self._table.name, Item=item, **guard)

    def _change(
        self, verb: str, after: Record | None, send: Callable[[dict[str, Any]], Any]
    ) -> bool:
        """Send a write that takes effect only if the item still is ``after``."""
        if after is None:
            guard: dict[str, Any] = {
                "ConditionExpression": "attribute_not_exists(#k)",
                "ExpressionAttributeNames": {"#k": KEY},
            }
        else:
            guard = {
                "ConditionExpression": "attribute_exists(#k) AND #v = :v",
                "ExpressionAttributeNames": {"#k": KEY, "#v": _VERSION},
                "ExpressionAttributeValues": {":v": {"S": after.version}},
            }
        return self._ask(verb, lambda: send(guard) is not None, refused=False)

    def make_table(self) -> None:
        """Make the table if it does not exist, and wait until it can be used."""
        if self._is_there:
            return
        give_up = self._clock.monotonic() + self._table.creation_timeout_s
        if self._state() is None:
            self._ask("create the table of", self._create)
        while self._state() != "ACTIVE":
            if self._clock.monotonic() >= give_up:
                raise StorageError(
                    f"The DynamoDB table {self._table.name} is not ready after "
                    f"{self._table.creation_timeout_s:g} s. Look at it in the console, or raise "
                    "hoodie.write.lock.dynamodb.table_creation_timeout.",
                    path=self.where,
                )
            self._clock.sleep(_POLL_S)
        self._is_there = True

    def _state(self) -> str | None:
        def look() -> str | None:
            try:
                found = self._client.describe_table(TableName=self._table.name)
            except self._client.exceptions.ResourceNotFoundException:
                return None
            return str(found["Table"]["TableStatus"])

        return self._ask("look for the table of", look)

    def _create(self) -> None:
        try:
            self._client.create_table(
                TableName=self._table.name,
                KeySchema=[{"AttributeName": KEY, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": KEY, "AttributeType": "S"}],
                **self._table.billing,
            )
        except self._client.exceptions.ResourceInUseException:
            return  # another writer was faster

    def _ask(
        self,
        verb: str,
        send: Callable[[], _Answer],
        refused: _Answer | None = None,
    ) -> _Answer:
        try:
            return send()
        except aws.ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code == "ConditionalCheckFailedException" and refused is not None:
                return refused
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            raise self._failed(verb, code, had_no_effect=300 <= status < 500) from error
        except (aws.NoCredentialsError, aws.PartialCredentialsError) as error:
            raise ConfigError(
                "There are no AWS credentials for the DynamoDB lock. Set them by the usual AWS "
                "environment, profile or instance role.",
                key="hoodie.write.lock.provider",
            ) from error
        except aws.BotoCoreError as error:
            never_sent = (aws.EndpointConnectionError, aws.ConnectTimeoutError)
            raise self._failed(verb, type(error).__name__, isinstance(error, never_sent)) from error

    def _failed(self, verb: str, reason: str, had_no_effect: bool) -> StorageError:
        return StorageError(
            f"Cannot {verb} the lock {self.where}: {reason}. Check that the service can be "
            "reached with these credentials (hoodie.write.lock.dynamodb.region, .endpoint_url).",
            path=self.where,
            had_no_effect=had_no_effect,
        )


def _record(item: Mapping[str, Any]) -> Record:
    version = item.get(_VERSION, {}).get("S", "")
    lease_ms = item.get(_LEASE, {}).get("S", "")
    lease_s = int(lease_ms) / 1_000 if lease_ms.isdigit() else None
    free = _RELEASED in item
    try:
        facts = json.loads(item[_DATA]["B"])
        if facts["version"] != version:
            raise ValueError("another program wrote the item and left our data")
        owner, since_ms = owner_of(facts)
        return Record(version, str(facts["token"]), owner, since_ms, lease_s, free)
    except (ValueError, KeyError, TypeError):
        name = item.get(_OWNER, {}).get("S", "")
        what = f"another program, probably Apache Hudi (owner '{name}')"
        return Record(version, "", None, None, lease_s, free, what=what)


def open_client(table: DynamoTable, what: str, attempts: int) -> Any:
    """boto3's client for ``what``; ``attempts`` bounds how often it sends each request.

    ``SetupError`` if boto3 is missing, ``ConfigError`` if the settings do not fit.
    """
    if boto3 is None:
        raise SetupError(
            f"{what} needs the package boto3. Install it: pip install 'pyhudi[dynamodb]'."
        )
    config = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=_ANSWER_S,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )
    try:
        return boto3.session.Session().client(
            "dynamodb",
            region_name=table.region,
            endpoint_url=table.endpoint_url,
            config=config,
        )
    except (aws.BotoCoreError, ValueError) as error:
        raise ConfigError(
            f"The settings of the DynamoDB lock do not fit: {error}.",
            key="hoodie.write.lock.dynamodb.endpoint_url",
        ) from error
