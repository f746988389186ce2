"""Instant times from a counter in DynamoDB: an item of the locks' table, by boto3.

A time that the writer's clock gives is set where the item is below it; else the item is increased
by one. Both are single atomic updates, so a request that is sent again after a lost reply skips a
time and never gives one twice. The item's key is the lock's with ``.time`` behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyhudi.clock import Clock
from pyhudi.errors import ConfigError, SetupError, StorageError
from pyhudi.locks.dynamodb import KEY, DynamoRegister, DynamoTable

try:
    import boto3
    from botocore import exceptions as aws
    from botocore.config import Config
except ImportError:
    if not TYPE_CHECKING:
        boto3 = None

_TIME: Final = "time"
_NAMES: Final = {"#t": _TIME}
_CONNECT_S: Final = 3
_ANSWER_S: Final = 5
_ATTEMPTS: Final = 4


class DynamoTimes:
    """A ``TimeSource`` in the item ``key`` of ``table``, which is made at first use."""

    def __init__(self, table: DynamoTable, key: str, clock: Clock) -> None:
        if boto3 is None:
            raise SetupError(
                "Instant times from DynamoDB need the package boto3. Install it: pip install "
                "'pyhudi[dynamodb]'."
            )
        self._table = table
        self._id = {KEY: {"S": key}}
        self._register = DynamoRegister(table, key, clock)
        self._client: Any = None

    def next_ms(self, at_least: int) -> int:
        try:
            if self._client is None:
                self._client = self._opened()
            return self._raised(at_least) or self._increased()
        except (aws.ClientError, aws.BotoCoreError) as error:
            raise StorageError(
                f"No instant time came from '{self._id[KEY]['S']}' in the DynamoDB table "
                f"{self._table.name}: {error}. Look whether the service can be reached with these "
                "credentials (hoodie.write.lock.dynamodb.region, .endpoint_url).",
                path=self._table.name,
            ) from error

    def _raised(self, time: int) -> int | None:
        """Set the counter to ``time``; None where it is there already, or beyond."""
        try:
            self._client.update_item(
                TableName=self._table.name,
                Key=self._id,
                UpdateExpression="SET #t = :new",
                ConditionExpression="attribute_not_exists(#t) OR #t < :new",
                ExpressionAttributeNames=_NAMES,
                ExpressionAttributeValues={":new": {"N": str(time)}},
            )
        except aws.ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ConditionalCheckFailedException":
                return None
            raise
        return time

    def _increased(self) -> int:
        answer = self._client.update_item(
            TableName=self._table.name,
            Key=self._id,
            UpdateExpression="ADD #t :one",
            ExpressionAttributeNames=_NAMES,
            ExpressionAttributeValues={":one": {"N": "1"}},
            ReturnValues="UPDATED_NEW",
        )
        return int(answer["Attributes"][_TIME]["N"])

    def _opened(self) -> Any:
        self._register.read()  # makes the table where it is not there
        config = Config(
            connect_timeout=_CONNECT_S,
            read_timeout=_ANSWER_S,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        )
        try:
            return boto3.session.Session().client(
                "dynamodb",
                region_name=self._table.region,
                endpoint_url=self._table.endpoint_url,
                config=config,
            )
        except ValueError as error:
            raise ConfigError(
                f"The settings of DynamoDB do not fit: {error}.",
                key="hoodie.write.lock.dynamodb.endpoint_url",
            ) from error
