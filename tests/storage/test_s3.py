from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyhudi.errors import ConfigError, FileExists, StorageError
from pyhudi.storage import s3 as s3_module
from pyhudi.storage.open import open_storage
from pyhudi.storage.s3 import S3Storage
from tests.fakes import FakeClock
from tests.lossy_proxy import Fate, LossyProxy, lossy_proxy
from tests.s3_server import BUCKET, S3Server, s3_server


@dataclass(frozen=True)
class Endpoint:
    """One table as seen through the lossy proxy, and straight."""

    proxy: LossyProxy
    lossy: S3Storage
    straight: S3Storage
    clock: FakeClock


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def table(server: S3Server) -> Iterator[Endpoint]:
    clock, root = FakeClock(), server.new_table()
    with lossy_proxy(server.endpoint) as (proxy, endpoint):
        lossy = open_storage(root, {**server.hadoop_options, "fs.s3a.endpoint": endpoint}, clock)
        straight = open_storage(root, server.hadoop_options, FakeClock(seed=1))
        assert isinstance(lossy, S3Storage)
        assert isinstance(straight, S3Storage)
        yield Endpoint(proxy, lossy, straight, clock)


@pytest.mark.parametrize("fate", [Fate.LOSE_REPLY, Fate.LOSE_REQUEST, Fate.INTERNAL_ERROR])
def test_a_put_whose_reply_was_lost_finds_out_that_it_landed(table: Endpoint, fate: Fate) -> None:
    table.proxy.fates.append(fate)

    table.lossy.put_if_absent("1.commit", b"ours")

    assert table.straight.read("1.commit") == b"ours"
    assert table.proxy.puts == 2


def test_a_lost_request_that_a_rival_overtook_is_refused(table: Endpoint) -> None:
    table.straight.put_if_absent("1.commit", b"theirs")
    table.proxy.fates.append(Fate.LOSE_REQUEST)

    with pytest.raises(FileExists):
        table.lossy.put_if_absent("1.commit", b"theirs")

    assert table.proxy.puts == 2


def test_a_version_that_was_replaced_meanwhile_is_not_swapped(table: Endpoint) -> None:
    table.straight.replace("lock", b"first")
    seen = table.straight.read_version("lock")
    table.straight.swap("lock", b"second", seen.tag)

    with pytest.raises(FileExists):
        table.straight.swap("lock", b"late", seen.tag)

    assert table.straight.read("lock") == b"second"


@pytest.mark.parametrize("call", ["put_if_absent", "replace"])
def test_a_put_that_never_got_an_answer_has_an_unknown_outcome(table: Endpoint, call: str) -> None:
    table.proxy.fates.extend([Fate.LOSE_REPLY] + [Fate.LOSE_REQUEST] * 10)

    with pytest.raises(StorageError, match="may have landed") as failed:
        getattr(table.lossy, call)("1.commit", b"ours")

    assert not failed.value.had_no_effect
    assert table.straight.read("1.commit") == b"ours"
    assert table.proxy.puts == 5


def test_a_put_that_was_only_ever_told_to_slow_down_is_a_known_failure(table: Endpoint) -> None:
    table.proxy.fates.extend([Fate.SLOW_DOWN] * 100)
    begun = table.clock.monotonic()

    with pytest.raises(
        StorageError, match=r"SlowDown, HTTP 503.* in [678] s.*write less"
    ) as failed:
        table.lossy.put_if_absent("1.commit", b"ours")

    assert failed.value.had_no_effect
    assert not table.straight.exists("1.commit")
    assert 5 < table.proxy.puts < 15
    assert 6 < table.clock.monotonic() - begun < 9


def test_a_throttled_put_backs_off_and_lands(table: Endpoint) -> None:
    table.proxy.fates.extend([Fate.SLOW_DOWN] * 6)

    table.lossy.put_if_absent("1.commit", b"ours")

    assert table.straight.read("1.commit") == b"ours"
    assert len(table.clock.slept) == 6


def test_no_attempt_begins_after_the_deadline_of_a_put(table: Endpoint) -> None:
    table.proxy.fates.extend([Fate.SLOW_DOWN] * 10)
    real = table.clock.sleep
    table.clock.sleep = lambda seconds: real(seconds + 3)  # type: ignore[method-assign]

    with pytest.raises(StorageError):
        table.lossy.put_if_absent("1.commit", b"ours")

    assert table.proxy.puts == 3


def test_folder_markers_are_no_files_and_go_with_their_folder(
    server: S3Server, table: Endpoint
) -> None:
    """S3A keeps an empty folder as an object whose name ends in a slash."""
    client = server.client()
    prefix = table.straight.root.removeprefix(f"s3a://{BUCKET}/")
    client.put_object(Bucket=BUCKET, Key=f"{prefix}/p=1/empty/", Body=b"")

    assert table.straight.walk("") == []
    assert table.straight.list("p=1/empty") == []
    assert table.straight.list_folders("p=1") == ["p=1/empty"]
    table.straight.delete_folder("p=1")
    assert table.straight.list_folders("") == []
    client.close()


def test_a_folder_of_many_batches_goes_whole_and_nothing_beside_it(
    table: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_module, "_BATCH", 2)
    monkeypatch.setattr(s3_module, "_DELETERS", 2)
    for number in range(15):
        table.straight.put_if_absent(f"p/{number}", b"")
    table.straight.put_if_absent("pq", b"")

    table.straight.delete_folder("p")

    assert [file.path for file in table.straight.walk("")] == ["pq"]


def test_wrong_buckets_and_dead_endpoints_are_errors_not_absent_files(server: S3Server) -> None:
    lost = open_storage("s3a://no-such-bucket/t", server.hadoop_options)
    with pytest.raises(StorageError, match="NoSuchBucket"):
        lost.put_if_absent("x", b"")
    with pytest.raises(StorageError, match="NoSuchBucket"):
        lost.walk("")

    options = {**server.hadoop_options, "fs.s3a.endpoint": "http://127.0.0.1:1"}
    dead = open_storage(f"s3a://{BUCKET}/t", options, FakeClock())
    with pytest.raises(StorageError, match="EndpointConnectionError") as failed:
        dead.put_if_absent("x", b"")
    assert failed.value.had_no_effect


def test_secrets_show_neither_in_the_storage_nor_in_errors(server: S3Server) -> None:
    options = {
        **server.hadoop_options,
        "fs.s3a.access.key": "AKIAVISIBLE",
        "fs.s3a.secret.key": "hush-hush",
        "fs.s3a.session.token": "hush-token",
    }
    storage = open_storage("s3a://no-such-bucket/t", options)

    with pytest.raises(StorageError) as failed:
        storage.read("x")

    shown = f"{storage!r} {vars(storage)!r} {failed.value} {failed.value.facts}"
    assert "hush" not in shown
    assert "AKIAVISIBLE" not in shown


def test_missing_credentials_are_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: S3Server
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    storage = open_storage(f"s3a://{BUCKET}/t", {"fs.s3a.endpoint": server.endpoint})

    with pytest.raises(ConfigError, match=r"no credentials.*fs\.s3a\.access\.key"):
        storage.put_if_absent("x", b"")


def test_without_boto3_the_error_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['boto3'] = None\n"
        "from pyhudi.errors import SetupError\n"
        "from pyhudi.storage.open import open_storage\n"
        "open_storage('/data/t', {})\n"
        "try: open_storage('s3a://b/t', {})\n"
        "except SetupError as error: print(error)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(s3_module.__file__).parents[2])},
    )

    assert "[SETUP_ERROR]" in found.stdout
    assert "pip install 'pyhudi[s3]'" in found.stdout


def test_a_local_table_does_not_load_boto3() -> None:
    script = (
        "import sys; from pyhudi.storage.open import open_storage; open_storage('/data/t', {})\n"
        "sys.exit('boto3' in sys.modules)"
    )
    environment = {"PYTHONPATH": str(Path(s3_module.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)
