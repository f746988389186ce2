"""Instant times from a counter in DynamoDB: an item of the locks' table, by boto3.

If the item is below the time of the writer's clock, it is set to that time; otherwise it is
increased by one. Both are single atomic updates, so a request that is sent again after a lost reply
skips a time and never gives one twice. The item's key is the lock's key plus ``.time``.
"""

from __future__ import annotations

from typing import Final

from pyhudi.clock import Clock
from pyhudi.errors import StorageError
from pyhudi.locks.dynamodb import KEY, DynamoRegister, DynamoTable, aws, open_client

_TIME: Final = "time"
_NAMES: Final = {"#t": _TIME}
_ATTEMPTS: Final = 4


class DynamoTimes:
    """A ``TimeSource`` in the item ``key`` of ``table``, which is made at first use."""

    def __init__(self, table: DynamoTable, key: str, clock: Clock) -> None:
        self._table = table
        self._id = {KEY: {"S": key}}
        # Unlike the lock's: here a request that is sent again does no harm.
        what = "A counter of instant times in DynamoDB"
        self._client = open_client(table, what, attempts=_ATTEMPTS)
        self._register = DynamoRegister(table, key, clock)

    def next_ms(self, at_least: int) -> int:
        try:
            self._register.make_table()
            return self._raised(at_least) or self._increased()
        except (aws.ClientError, aws.BotoCoreError) as error:
            raise StorageError(
                f"No instant time came from '{self._id[KEY]['S']}' in the DynamoDB table "
                f"{self._table.name}: {error}. Check that the service can be reached with these "
                "credentials (hoodie.write.lock.dynamodb.region, .endpoint_url).",
                path=self._table.name,
            ) from error

    def _raised(self, time: int) -> int | None:
        """Set the counter to ``time``; None if it is already there, or beyond."""
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
