"""What tasks do to have their markers on storage, against real servers and scripted ones."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pyarrow as pa
import pytest

from pyhudi.clock import SystemClock
from pyhudi.errors import InvalidRecord, StorageError
from pyhudi.format.instants import InstantTime
from pyhudi.rows import announce
from pyhudi.rows.announce import ATTEMPTS, HeldMarkers, MarkerAddress, ServedMarkers
from pyhudi.rows.bulk import bulk_write
from pyhudi.rows.groups import write_groups
from pyhudi.rows.spec import GROUP, KEY_COLUMN, PARTITION_COLUMN, GroupPlan
from pyhudi.storage.faults import FaultyStorage
from pyhudi.storage.local import LocalStorage
from pyhudi.transactions.markers.marker_log import Batching
from pyhudi.transactions.markers.marker_server import MarkerServer
from pyhudi.transactions.markers.marker_service import MarkerService, OpenMarkers
from pyhudi.transactions.markers.markers import marked_files
from tests.rows.workers import SCHEMA, T1, run, spec, with_columns

TOKEN = "s3cret"
INSTANT = InstantTime(T1)
NAMES = [f"p/{n}-0_0-1-2_{T1}.parquet.marker.CREATE" for n in range(6)]


class Scripted:
    """A server that answers as it is told, one answer a request; "" hangs up without one."""

    def __init__(self, *answers: str) -> None:
        self.requests: list[bytes] = []
        self._answers = list(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while self._answers:
            connection, _ = self._socket.accept()
            with connection, connection.makefile("rb") as stream:
                while self._answers and (head := self._head(stream)):
                    self.requests.append(head)
                    answer = self._answers.pop(0)
                    if not answer:
                        break
                    text = f"HTTP/1.1 {answer}\r\nContent-Length: 4\r\n\r\ntext"
                    connection.sendall(text.encode())
        self._socket.close()

    @staticmethod
    def _head(stream: object) -> bytes:
        head, length = b"", 0
        while (line := stream.readline()) not in (b"", b"\r\n"):  # type: ignore[attr-defined]
            head += line
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return head + bytes(stream.read(length))  # type: ignore[attr-defined]

    def join(self) -> None:
        self._thread.join(30)


def client(port: int, pauses: list[float]) -> ServedMarkers:
    return ServedMarkers(MarkerAddress("127.0.0.1", port, "k", TOKEN), pauses.append)


def test_many_markers_go_in_one_request_and_none_is_asked_twice() -> None:
    server = Scripted("200 OK", "200 OK")
    markers = client(server.port, [])
    markers.expect(NAMES[:4])
    markers.announce(NAMES[2])
    markers.settle(NAMES[2])
    markers.expect([*NAMES[:4], NAMES[5]])
    markers.close()
    server.join()
    assert [r.partition(b"text/plain")[2].split() for r in server.requests] == [
        [n.encode() for n in NAMES[:4]], [NAMES[5].encode()],
    ]  # fmt: skip
    assert all(b"Authorization: Bearer s3cret\r\n" in r for r in server.requests)


def test_a_request_has_a_bounded_number_of_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announce, "MOST_NAMES", 4)
    server = Scripted("200 OK", "200 OK")
    markers = client(server.port, [])
    markers.expect(NAMES)
    markers.close()
    server.join()
    assert [r.count(b".marker.") for r in server.requests] == [4, 2]


def test_a_busy_server_and_a_lost_connection_are_asked_again_after_growing_pauses() -> None:
    server = Scripted("503 Busy", "", "503 Busy", "200 OK")
    pauses: list[float] = []
    markers = client(server.port, pauses)
    markers.announce(NAMES[0])
    markers.close()
    server.join()
    assert len(server.requests) == 4
    assert len(set(server.requests)) == 1
    assert len(pauses) == 3
    assert 0 < pauses[0] < pauses[1] < pauses[2]


def test_a_server_that_stays_away_is_given_up_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = int(unused.getsockname()[1])
    pauses: list[float] = []
    with pytest.raises(StorageError, match=f"{ATTEMPTS} attempts.*markers.type=direct") as error:
        client(port, pauses).announce(NAMES[0])
    assert TOKEN not in str(error.value)
    assert len(pauses) == ATTEMPTS - 1
    assert max(pauses) <= 2 * announce.LONGEST_PAUSE_S
    assert 10 < sum(pauses) < 120


@pytest.mark.parametrize("status", ["400 No", "401 No", "404 No", "409 No", "413 No", "500 No"])
def test_a_refusal_is_final_and_says_why(status: str) -> None:
    server = Scripted(status)
    pauses: list[float] = []
    markers = client(server.port, pauses)
    with pytest.raises(StorageError, match=f"HTTP {status[:3]}: text.*not written") as error:
        markers.announce(NAMES[0])
    markers.close()
    server.join()
    assert pauses == []
    assert TOKEN not in str(error.value)


def test_the_secret_is_in_the_pickle_and_not_in_the_text() -> None:
    address = MarkerAddress("127.0.0.1", 1, "k", TOKEN)
    assert TOKEN not in repr(address)
    assert TOKEN not in repr(spec(Path("/t"), markers=address))
    assert pickle.loads(pickle.dumps(address)) == address


# -- the writers -------------------------------------------------------------------------------


class Served:
    """A table in a folder, its marker server, and how often it was asked."""

    def __init__(self, root: Path) -> None:
        self.storage = FaultyStorage(LocalStorage(str(root)))
        self.service = MarkerService(SystemClock())
        self.markers: OpenMarkers = self.service.open(self.storage, INSTANT, Batching())
        self.server = MarkerServer(self.service, TOKEN)
        self.asked: list[int] = []
        ask = self.service.ask

        def counting(key: str, names: Sequence[str]) -> Future[None]:
            self.asked.append(len(names))
            return ask(key, names)

        self.service.ask = counting  # type: ignore[method-assign]

    def address(self) -> MarkerAddress:
        return MarkerAddress("127.0.0.1", self.server.start(), self.markers.key, TOKEN)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.service.close()
    made.server.stop()


def rows(count: int) -> pa.Table:
    table = pa.table(
        {
            "id": [f"k{n}" for n in range(count)],
            "name": ["n"] * count,
            "price": [1.0] * count,
            "ts": [1] * count,
        },
        schema=SCHEMA,
    )
    return with_columns(table, **{KEY_COLUMN: table["id"].combine_chunks()})


def by_partition(partitions: int, each: int = 10) -> pa.Table:
    table = rows(partitions * each)
    paths = [f"dt={n % partitions}" for n in range(table.num_rows)]
    return with_columns(table, **{PARTITION_COLUMN: pa.array(paths)})


def test_a_task_that_bulk_inserts_small_partitions_asks_once(
    served: Served, tmp_path: Path
) -> None:
    stats = run(bulk_write(spec(tmp_path, markers=served.address()), "seed"), by_partition(20))
    assert served.asked == [20]
    assert marked_files(served.storage, INSTANT) == sorted(stat["path"] for stat in stats)
    assert {f.name for f in served.storage.walk(f".hoodie/.temp/{T1}")} == {
        "MARKERS.type", "MARKERS0",
    }  # fmt: skip


def test_a_partition_of_many_files_is_asked_ahead_for_more_and_more(
    served: Served, tmp_path: Path
) -> None:
    write = spec(
        tmp_path, markers=served.address(), target_file_bytes=1, row_group_rows=1, row_group_bytes=1
    )
    table = with_columns(rows(1024 * 40), **{PARTITION_COLUMN: "p"})
    stats = run(bulk_write(write, "seed"), table, 1024)
    assert len(stats) == 40
    assert len(served.asked) < 20
    marked = marked_files(served.storage, INSTANT)
    assert marked is not None
    assert {stat["path"] for stat in stats} <= set(marked)
    assert len(marked) <= 40 * 5 // 4 + 1


def test_a_task_announces_the_groups_that_it_will_write_and_no_others(
    served: Served, tmp_path: Path
) -> None:
    groups = {n: GroupPlan(n, f"g{n}-0", f"dt={n}") for n in range(8)}
    table = pa.concat_tables(with_columns(rows(5), **{GROUP: n}) for n in (1, 3, 5))
    task_of = {n: 0 if n in (1, 3, 5) else 1 for n in groups}
    write = spec(tmp_path, markers=served.address())
    stats = run(write_groups(write, groups, task_of), table)
    assert served.asked == [3]
    assert marked_files(served.storage, INSTANT) == sorted(stat["path"] for stat in stats)


def test_without_the_hint_each_group_is_announced_in_its_turn(
    served: Served, tmp_path: Path
) -> None:
    groups = {n: GroupPlan(n, f"g{n}-0", "p") for n in range(3)}
    table = pa.concat_tables(with_columns(rows(5), **{GROUP: n}) for n in range(3))
    run(write_groups(spec(tmp_path, markers=served.address()), groups), table)
    assert served.asked == [1, 1, 1]


def test_the_driver_writes_without_a_server(served: Served, tmp_path: Path) -> None:
    held = HeldMarkers(served.markers.ask)
    stats = run(bulk_write(spec(tmp_path, markers=held), "seed"), by_partition(5))
    assert served.asked == [5]
    assert marked_files(served.storage, INSTANT) == sorted(stat["path"] for stat in stats)
    assert served.server.port == 0, "it was never started"


def test_no_data_file_is_written_without_its_marker(served: Served, tmp_path: Path) -> None:
    served.markers.seal(0)
    for markers in (served.address(), HeldMarkers(served.markers.ask)):
        with pytest.raises(StorageError, match="has ended"):
            run(bulk_write(spec(tmp_path, markers=markers), "seed"), by_partition(2))
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_partition_that_fits_in_no_line_is_an_error_with_the_remedy(
    served: Served, tmp_path: Path
) -> None:
    table = with_columns(rows(3), **{PARTITION_COLUMN: "dt=a\nb"})
    with pytest.raises(InvalidRecord, match="markers.type=direct"):
        run(bulk_write(spec(tmp_path, markers=served.address()), "seed"), table)
    assert list(tmp_path.rglob("*.parquet")) == []
    run(bulk_write(spec(tmp_path), "seed"), table)
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
