"""Two streams on one table while Apache Hudi writes to it, cleans, archives and clusters.

All share ZooKeeper's lock. Hudi upserts keys of its own, so its rows do not hide those of the
streams; its services rewrite and delete the files of both, and archive commits that tell which
batches are in.
"""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from integration.peers import PeerError, SparkPeer, writer_options
from integration.storm_hudi import PROCEDURES, causes, session_settings
from integration.storm_places import LOCK, PROVIDER
from integration.stream_seeds import Played, Pool, play
from integration.stream_source import Row
from tests.servers.zookeeper import zookeeper_server

BEAT_MS, MISSES = 1_000, 2
SERVICES = ("clean by commits", "archive", "cluster", "clean by versions")
KEYS = 12
#: Hudi archives what is older than so few commits
ARCHIVE = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4",
           "hoodie.clean.commits.retained": "2"}  # fmt: skip


class Neighbour:
    """Apache Hudi on the table: it writes and serves until the streams have ended."""

    def __init__(self, settings: dict[str, str], table: Path, seed: str) -> None:
        self.done: Counter[str] = Counter()
        self.rows: Counter[Row] = Counter()
        self.failed: list[str] = []
        self._table = table
        self._options = {key: told for key, told in settings.items() if key.startswith("hoodie.")}
        self._peer = SparkPeer("beside", "hudi", settings, module="integration.storm_hudi")
        self._name = f"beside_{seed}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="neighbour")

    def __enter__(self) -> Neighbour:
        self._write(0)  # without columns Apache Hudi makes no entry for the table
        self._peer.sql(f"create table {self._name} using hudi location '{self._table}'")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._peer.close()

    def _run(self) -> None:
        turn = 1
        while not self._stop.is_set() or turn <= len(SERVICES):
            self._write(turn)
            self._serve(SERVICES[turn % len(SERVICES)])
            turn += 1
        for _ in range(3):
            self._serve("finish clustering")

    def _write(self, turn: int) -> None:
        rows = [(f"h{key}", f"p{key % 3}", turn) for key in range(KEYS)]
        numbers = pa.array([turn] * KEYS, pa.int32())
        keys, places = [k for k, _, _ in rows], [p for _, p, _ in rows]
        table = pa.table({"k": keys, "p": places, "v": numbers, "t": numbers})
        options = {**self._options, **writer_options(self._table)}
        try:
            self._peer.write(self._table, table, options)
        except PeerError as error:
            self._note("write failed", error)
        else:
            self.done["write"] += 1
            self.rows = Counter(rows)

    def _serve(self, service: str) -> None:
        try:
            if service == "archive":
                self._peer.call("archive", path=str(self._table), name=self._name)
            else:
                given = {"name": self._name, "kept": 2, "versions": 1, "groups": 2}
                self._peer.sql("call " + PROCEDURES[service].format(**given))
        except PeerError as error:
            self._note(f"{service} failed", error)
        else:
            self.done[service] += 1

    def _note(self, what: str, error: PeerError) -> None:
        if error.kind == "Died" or not self._thread.is_alive():
            raise error
        self.done[what] += 1
        self.failed.append(f"{what}: {causes(error)[:600]}")


def play_beside(
    seeds: Sequence[str], folder: Path, judge: Callable[[Played], list[str]]
) -> list[Played]:
    """The streams of each seed beside Hudi; a folder with problems stays."""
    found = []
    with zookeeper_server(folder) as server, Pool(2, folder / "log") as pool:
        for seed in seeds:
            own = folder / seed
            own.mkdir()
            lock = {
                PROVIDER: "zookeeper",
                LOCK + "wait_time_ms": "300000",
                LOCK + "zookeeper.url": server.address,
                LOCK + "zookeeper.base_path": "/streams",
                LOCK + "zookeeper.lock_key": f"table{seed}",
                LOCK + "zookeeper.session_timeout_ms": "8000",
            }
            played = _beside(seed, own, pool, lock)
            played.problems += judge(played)
            print(f"seed {seed} has ended, with {len(played.problems)} problems", flush=True)
            found.append(played)
            if not played.problems:
                shutil.rmtree(own)
    return found


def _beside(seed: str, folder: Path, pool: Pool, lock: dict[str, str]) -> Played:
    neighbours: list[Neighbour] = []

    def begin(played: Played) -> Neighbour:
        settings = session_settings(lock, played.version, BEAT_MS, MISSES)
        neighbours.append(Neighbour({**settings, **ARCHIVE}, played.table, seed))
        return neighbours[0]

    played = play(seed, folder, pool, 2, lock, begin)
    (neighbour,) = neighbours
    played.wanted += neighbour.rows
    played.deaths.update(f"Hudi's {name}" for name in neighbour.done.elements())
    played.errors += neighbour.failed
    return played
