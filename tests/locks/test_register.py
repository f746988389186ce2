"""Locks by compare-and-set: Hudi's layout in a store, Amazon's in DynamoDB, faults of both."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from pyhudi.clock import SystemClock
from pyhudi.config import LockOptions, resolve_write
from pyhudi.errors import ConfigError, LockTimeout, StorageError, WriterFenced
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.locks.dynamodb import DynamoRegister, DynamoTable
from pyhudi.locks.leased import LeasedLock, Sightings
from pyhudi.locks.numbered import NumberedFiles
from pyhudi.locks.register import Entry, Register, RegisterLock
from pyhudi.locks.storage_lock import PATH, StorageRegister
from pyhudi.storage.base import VersionedStorage
from pyhudi.storage.faults import READS, Call, Effect, Fault, FaultyStorage
from pyhudi.storage.memory import MemoryStorage
from tests.fakes import FakeClock
from tests.servers.cutting_proxy import Cut, cutting_proxy
from tests.servers.dynamodb import DynamoDb

ANN = LockOwner("20240101000000001", "ann.example", 11, "nightly load")
BOB = LockOwner("20240101000000002", "bob.example", 22)
NOW_MS = 1_704_067_200_000

_numbers = itertools.count()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(now_ms=NOW_MS)


@pytest.fixture
def storage(clock: FakeClock) -> MemoryStorage:
    return MemoryStorage(clock=clock)


def handle(
    storage: VersionedStorage, clock: FakeClock, sightings: Sightings | None = None
) -> TableLock:
    register = StorageRegister(storage, clock)
    return LeasedLock(RegisterLock(register, clock, lease_s=60, sightings=sightings), clock)


def hudis(valid_until_ms: int, expired: bool = False) -> bytes:
    content = {"expired": expired, "validUntil": valid_until_ms, "owner": "7d3a-hudi"}
    return json.dumps(content).encode()


def test_the_object_has_hudis_keys_and_ours_beside_them(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    lock = handle(storage, clock)
    lock.acquire(0, ANN)

    content = json.loads(storage.read(".hoodie/.locks/table_lock.json"))
    assert content["expired"] is False
    assert content["validUntil"] == NOW_MS + 65_600
    assert "the writer of instant 20240101000000001 on ann.example" in content["owner"]
    assert content["pyhudi"]["leaseSeconds"] == 60.6

    lock.release()
    left = json.loads(storage.read(PATH))
    assert left == {"expired": True, "validUntil": NOW_MS + 65_600, "owner": content["owner"]}


def test_a_renewal_prolongs_what_hudi_sees(storage: MemoryStorage, clock: FakeClock) -> None:
    lock = handle(storage, clock)
    lock.acquire(0, ANN)
    clock.advance(30)
    lock.renew()

    assert json.loads(storage.read(PATH))["validUntil"] == NOW_MS + 95_600


@pytest.mark.parametrize("content", [hudis(NOW_MS + 1_000), b"{}", b"", b"[1]", b"\xff"])
def test_another_programs_lock_is_respected(
    storage: MemoryStorage, clock: FakeClock, content: bytes
) -> None:
    storage.put_if_absent(PATH, content)

    with pytest.raises(LockTimeout):
        handle(storage, clock).acquire(3, ANN)
    assert storage.read(PATH) == content


def test_hudis_lock_is_named_with_its_owner(storage: MemoryStorage, clock: FakeClock) -> None:
    storage.put_if_absent(PATH, hudis(NOW_MS + 600_000))

    with pytest.raises(LockTimeout, match=r"Apache Hudi \(owner '7d3a-hudi'\) since") as refused:
        handle(storage, clock).acquire(3, ANN)
    assert "validity" in str(refused.value)


def test_hudis_lock_ends_at_its_validity_and_a_margin_for_the_clocks(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    storage.put_if_absent(PATH, hudis(NOW_MS + 60_000))
    lock = handle(storage, clock)

    with pytest.raises(LockTimeout):
        lock.acquire(62, ANN)
    lock.acquire(10, ANN)

    assert lock.check() > 0


def test_hudis_released_lock_is_free(storage: MemoryStorage, clock: FakeClock) -> None:
    storage.put_if_absent(PATH, hudis(NOW_MS + 600_000, expired=True))
    lock = handle(storage, clock)
    assert lock.describe() is None
    lock.acquire(0, ANN)
    assert lock.check() > 0


def test_hudi_taking_the_lock_from_us_fences_us(storage: MemoryStorage, clock: FakeClock) -> None:
    lock = handle(storage, clock)
    lock.acquire(0, ANN)
    storage.replace(PATH, hudis(NOW_MS + 600_000))

    with pytest.raises(WriterFenced, match="7d3a-hudi"):
        lock.check()
    lock.release()
    assert json.loads(storage.read(PATH))["expired"] is False


def test_a_holder_long_dead_by_the_stores_clock_is_taken_over_at_once(clock: FakeClock) -> None:
    """Each time is the store's own, so nobody's wall clock matters."""
    stores = FakeClock(now_ms=99)
    storage = MemoryStorage(clock=stores)
    handle(storage, clock).acquire(0, ANN)
    stores.advance(66)  # its servers may be some seconds apart
    with pytest.raises(LockTimeout):
        handle(storage, clock).acquire(0, BOB)
    stores.advance(2)

    handle(storage, clock).acquire(0, BOB)


def test_what_one_handle_saw_counts_for_the_next(clock: FakeClock) -> None:
    storage, sightings = MemoryStorage(clock=FakeClock()), Sightings()
    handle(storage, clock).acquire(0, ANN)
    for _ in range(2):
        with pytest.raises(LockTimeout):
            handle(storage, clock, sightings).acquire(29, BOB)

    handle(storage, clock, sightings).acquire(29, BOB)


@pytest.mark.parametrize("effect", [Effect.LOSE_REPLY, Effect.LOSE_REQUEST])
@pytest.mark.parametrize("method", ["put_if_absent", "swap"])
def test_an_unanswered_put_is_looked_for(
    storage: MemoryStorage, clock: FakeClock, method: str, effect: Effect
) -> None:
    if method == "swap":
        storage.put_if_absent(PATH, hudis(NOW_MS, expired=True))
    faulty = FaultyStorage(storage, Fault(effect))
    lock = handle(faulty, clock)

    lock.acquire(10, ANN)

    assert faulty.writes[0].method == method
    assert len(faulty.writes) == (1 if effect is Effect.LOSE_REPLY else 2)
    assert lock.check() > 0


@pytest.mark.parametrize("effect", [Effect.LOSE_REPLY, Effect.LOSE_REQUEST])
def test_an_unanswered_renewal_leaves_no_doubt_about_the_lease(
    storage: MemoryStorage, clock: FakeClock, effect: Effect
) -> None:
    lock = handle(FaultyStorage(storage, Fault(effect, at=2)), clock)
    lock.acquire(0, ANN)
    clock.advance(40)

    if effect is Effect.LOSE_REPLY:
        lock.renew()
        assert lock.check() == pytest.approx(60)
    else:
        with pytest.raises(WriterFenced):
            lock.renew()


def test_an_unanswered_release_is_left_to_the_lease(
    storage: MemoryStorage, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    lock = handle(FaultyStorage(storage, Fault(Effect.LOSE_REQUEST, at=2)), clock)
    lock.acquire(0, ANN)

    lock.release()

    assert "was not released" in caplog.text
    handle(storage, clock).acquire(70, BOB)


def test_a_store_that_refuses_is_not_asked_again(storage: MemoryStorage, clock: FakeClock) -> None:
    lock = handle(FaultyStorage(storage, Fault(Effect.FAIL_BEFORE)), clock)

    with pytest.raises(StorageError, match="injected"):
        lock.acquire(10, ANN)
    assert clock.slept == []


def test_a_lost_lock_is_known_for_lost_though_its_holder_cannot_be_asked_for(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    lock = handle(FaultyStorage(storage, Fault(Effect.FAIL_BEFORE, at=3, methods=READS)), clock)
    lock.acquire(0, ANN)
    storage.replace(PATH, hudis(NOW_MS + 600_000))

    with pytest.raises(WriterFenced, match="does not say who has it"):
        lock.check()


def test_a_lease_begins_before_the_request_that_took_or_renewed_it(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    def slow(call: Call) -> None:
        clock.advance(4)

    lock = handle(FaultyStorage(storage, before=slow), clock)
    lock.acquire(0, ANN)  # a look and a put
    assert lock.check() == pytest.approx(60 - 12)  # and the look of the check itself
    lock.renew()  # a look and a put again
    assert lock.check() == pytest.approx(60 - 12)


@pytest.mark.parametrize("kind", ["storage", "numbered files"])
def test_a_waiter_whose_clock_is_faster_never_has_the_lock_beside_its_holder(kind: str) -> None:
    """Amazon's lock client waits for what the item declares, and no longer."""
    slow, fast = FakeClock(now_ms=NOW_MS), FakeClock(now_ms=NOW_MS)
    storage = MemoryStorage(clock=FakeClock(now_ms=NOW_MS))
    sightings = Sightings()

    def opened(clock: FakeClock) -> TableLock:
        if kind == "storage":
            return handle(storage, clock, sightings)
        files = NumberedFiles(storage, clock, lease_s=60, sightings=sightings)
        return LeasedLock(files, clock)

    holder, waiter = opened(slow), opened(fast)
    holder.acquire(0, ANN)
    for _ in range(1_300):
        slow.advance(0.05 * 0.995)
        fast.advance(0.05)
        try:
            waiter.acquire(0, BOB)
        except LockTimeout:
            continue
        break
    assert waiter.held()
    assert not holder.held()


def test_of_two_heirs_one_has_the_lock(storage: MemoryStorage, clock: FakeClock) -> None:
    """The other strikes between the first heir's look and its put."""
    handle(storage, clock).acquire(0, ANN)
    clock.advance(68)
    rival = handle(storage, clock)
    struck: list[Call] = []

    def strike(call: Call) -> None:
        if call.method == "swap" and not struck:
            struck.append(call)
            rival.acquire(0, BOB)

    late = handle(FaultyStorage(storage, before=strike), clock)
    with pytest.raises(LockTimeout, match="bob"):
        late.acquire(0, ANN)
    assert rival.check() > 0


def test_a_store_that_cannot_be_read_answers_no_check(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    lock = handle(FaultyStorage(storage, Fault(Effect.FAIL_BEFORE, at=2, methods=READS)), clock)
    lock.acquire(0, ANN)

    with pytest.raises(StorageError):
        lock.check()
    assert lock.check() > 0


# -- DynamoDB ------------------------------------------------------------------------------------


@pytest.fixture
def client(dynamodb: DynamoDb) -> Iterator[Any]:
    client = boto3.client("dynamodb", region_name="us-east-1", endpoint_url=dynamodb.endpoint)
    yield client
    client.close()


def dynamo(endpoint: str, table: str = "rides-locks", **said: str) -> TableLock:
    given = {f"hoodie.write.lock.dynamodb.{key}": text for key, text in said.items()}
    place = DynamoTable.of(
        resolve_write({**given, "hoodie.write.lock.dynamodb.endpoint_url": endpoint}).lock, table
    )
    clock = SystemClock()
    return LeasedLock(RegisterLock(DynamoRegister(place, "rides", clock), clock, lease_s=60), clock)


def test_the_item_is_laid_out_as_amazons_client_does(dynamodb: DynamoDb, client: Any) -> None:
    lock = dynamo(dynamodb.endpoint)
    lock.acquire(10, ANN)

    item = client.get_item(TableName="rides-locks", Key={"key": {"S": "rides"}})["Item"]

    assert set(item) == {"key", "ownerName", "leaseDuration", "recordVersionNumber", "data"}
    assert item["leaseDuration"] == {"S": "60600"}
    assert item["ownerName"]["S"].startswith("pyhudi-ann.example-")
    assert json.loads(item["data"]["B"])["instant"] == ANN.instant
    lock.release()
    assert "Item" not in client.get_item(TableName="rides-locks", Key={"key": {"S": "rides"}})


@pytest.mark.parametrize(
    ("said", "billing"),
    [
        ({}, {"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}}),
        (
            {"billing_mode": "PROVISIONED", "read_capacity": "3", "write_capacity": "2"},
            {"ProvisionedThroughput": {"ReadCapacityUnits": 3, "WriteCapacityUnits": 2}},
        ),
    ],
)
def test_the_table_is_made_where_it_is_not_there(
    dynamodb: DynamoDb, client: Any, said: dict[str, str], billing: dict[str, Any]
) -> None:
    name = f"locks-{next(_numbers)}"

    assert dynamo(dynamodb.endpoint, name, **said).describe() is None

    made = client.describe_table(TableName=name)["Table"]
    assert made["KeySchema"] == [{"AttributeName": "key", "KeyType": "HASH"}]
    for key, value in billing.items():
        assert value.items() <= made[key].items()


def test_an_item_that_another_program_wrote_over_ours_is_not_ours(
    dynamodb: DynamoDb, client: Any
) -> None:
    """Amazon's client can renew an item in place, which leaves our data in it."""
    lock = dynamo(dynamodb.endpoint, "overwritten")
    lock.acquire(10, ANN)
    client.update_item(
        TableName="overwritten",
        Key={"key": {"S": "rides"}},
        UpdateExpression="SET recordVersionNumber = :v, ownerName = :o",
        ExpressionAttributeValues={":v": {"S": "theirs"}, ":o": {"S": "hudi-7"}},
    )

    with pytest.raises(WriterFenced, match="hudi-7"):
        lock.check()


def test_a_released_item_is_free(dynamodb: DynamoDb, client: Any) -> None:
    assert dynamo(dynamodb.endpoint, "released").describe() is None
    client.put_item(
        TableName="released",
        Item={
            "key": {"S": "rides"},
            "ownerName": {"S": "hudi"},
            "leaseDuration": {"S": "60600"},
            "recordVersionNumber": {"S": "v"},
            "isReleased": {"S": "1"},
        },
    )
    lock = dynamo(dynamodb.endpoint, "released")
    lock.acquire(0, ANN)
    assert lock.check() > 0


@pytest.mark.parametrize("cut", Cut)
def test_a_put_whose_connection_breaks_is_looked_for(dynamodb: DynamoDb, cut: Cut) -> None:
    target = dynamodb.endpoint.removeprefix("http://")
    with cutting_proxy(target, b"DynamoDB_20120810.PutItem", cut) as proxy:
        lock = dynamo(f"http://{proxy.address}", f"cut-{cut.name}")

        lock.acquire(10, ANN)

        assert proxy.met == [cut]
        assert lock.check() > 0


@pytest.mark.parametrize("kind", ["storage", "dynamodb"])
def test_what_was_read_before_somebody_wrote_is_good_for_no_write(
    request: pytest.FixtureRequest, storage: MemoryStorage, clock: FakeClock, kind: str
) -> None:
    register: Register = StorageRegister(storage, clock)
    if kind == "dynamodb":
        server: DynamoDb = request.getfixturevalue("dynamodb")
        options = LockOptions(dynamodb_endpoint_url=server.endpoint)
        register = DynamoRegister(DynamoTable.of(options, "stale"), "rides", clock)
    first, second, third = (Entry(name, ANN, NOW_MS, 60) for name in "abc")
    assert register.read() is None
    assert register.write(first, None)
    assert not register.write(second, None)
    stale = register.read()
    assert stale is not None
    assert register.write(second, stale)

    assert not register.write(third, stale)
    register.clear(stale)

    found = register.read()
    assert found is not None
    assert (found.token, found.free) == ("b", False)
    register.clear(found)
    left = register.read()
    assert left is None or left.free


def test_missing_credentials_are_named(dynamodb: DynamoDb, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")

    with pytest.raises(ConfigError, match="AWS credentials"):
        dynamo(dynamodb.endpoint).acquire(1, ANN)


def test_an_endpoint_that_makes_no_sense_is_refused_by_its_key() -> None:
    table = DynamoTable.of(LockOptions(dynamodb_endpoint_url="not an address"), "t")
    with pytest.raises(ConfigError) as refused:
        DynamoRegister(table, "rides")
    assert refused.value.facts["key"] == "hoodie.write.lock.dynamodb.endpoint_url"
