"""Apache Hudi's table services on the table of a storm, by its SQL procedures in one Spark session.

Invariant: every client of this session has the storm's lock, optimistic concurrency and lazy
clean-up of failed writes, as a Hudi writer beside others must. ``archive_commits`` of Hudi makes a
client without any of that, so archiving goes by the write client that the other procedures make.
"""

from __future__ import annotations

import json
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from integration.peers import PeerError, SparkPeer, maven
from integration.peers.process import claim_stdout, serve
from integration.peers.spark import HUDI_CONF
from pyhudi.format.instants import Action, State
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline, instant_key
from pyhudi.timeline.table import open_table

NAME = "storm"
CLASSES = "org.apache.hudi.client.transaction.lock."
LOCK = "hoodie.write.lock."
#: what each client of the session has, beside the lock
MANNERS = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.metadata.enable": "false",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.keep.min.commits": "8",
    "hoodie.keep.max.commits": "10",
    "hoodie.clean.commits.retained": "6",
    # Two or three file groups at once: writers fail beside a plan that has their group.
    "hoodie.clustering.plan.strategy.small.file.limit": "1000000000",
    "hoodie.clustering.plan.strategy.max.bytes.per.group": "20000",
    "hoodie.compact.inline": "false",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.log.compaction.enable": "true",
    "hoodie.log.compaction.blocks.threshold": "2",
    LOCK + "wait_time_ms": "120000",
    LOCK + "num_retries": "100",
}
SERVICES = (
    "clean by commits",
    "clean by versions",
    "archive",
    "savepoint",
    "delete savepoint",
    "restore",
    "roll back",
    "cluster",
)
#: those of merge-on-read tables alone
LOG_SERVICES = ("compact", "merge logs")
PROCEDURES = {
    "clean by commits": "run_clean(table => '{name}', clean_policy => 'KEEP_LATEST_COMMITS', "
    "retain_commits => {kept})",
    "clean by versions": "run_clean(table => '{name}', clean_policy => "
    "'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => {versions})",
    "savepoint": "create_savepoint(table => '{name}', commit_time => '{instant}')",
    "delete savepoint": "delete_savepoint(table => '{name}', instant_time => '{instant}')",
    "restore": "rollback_to_savepoint(table => '{name}', instant_time => '{instant}')",
    "roll back": "rollback_to_instant(table => '{name}', instant_time => '{instant}')",
    "cluster": "run_clustering(table => '{name}', options => "
    "'hoodie.clustering.plan.strategy.max.num.groups={groups}')",
    "compact": "run_compaction(table => '{name}', op => 'scheduleAndExecute')",
    "finish compaction": "run_compaction(table => '{name}', op => 'execute')",
    "finish clustering": "run_clustering(table => '{name}', op => 'execute')",
    "undo clustering": "run_rollback_inflight_tableservice(table => '{name}', "
    "pending_instant => '{instant}')",
}
#: services without a procedure: the methods of the session for them
METHODS = {
    "archive": "archive",
    "merge logs": "merge_logs",
    "finish merging logs": "merge_logs_by_plan",
}
#: what runs the pending plans of an action
FINISHES = {
    Action.COMPACTION: "finish compaction",
    Action.LOGCOMPACTION: "finish merging logs",
}
AGAIN = 6
RESTORED = "is not the last commit after restoring"
#: the exceptions of a Java stack trace, from the outermost in
CAUSE = re.compile(r"^(?:Caused )?(?:by)?: ?(\S*(?:Exception|Error)\b.*)$", re.MULTILINE)


def session_settings(
    options: Mapping[str, str], version: int, beat_ms: int, misses: int
) -> dict[str, str]:
    """The Spark settings of the services' session; ``options`` are those of pyhudi's writers."""
    lock = {key: value for key, value in options.items() if key.startswith(LOCK + "zookeeper")}
    return {
        **HUDI_CONF,
        "spark.jars": str(maven.jar(maven.HUDI["1.2.0"])),
        "spark.driver.memory": "1g",
        **MANNERS,
        **lock,
        LOCK + "provider": CLASSES + "ZookeeperBasedLockProvider",
        LOCK + "zookeeper.port": options[LOCK + "zookeeper.url"].rpartition(":")[2],
        "hoodie.write.table.version": str(version),
        "hoodie.client.heartbeat.interval_in_ms": str(beat_ms),
        "hoodie.client.heartbeat.tolerable.misses": str(misses),
    }


def causes(error: PeerError) -> str:
    """What went wrong, from the outermost exception in."""
    return " <- ".join(CAUSE.findall(error.text)) or f"{error.kind}: {error.text}"


def uncrossed(timeline: Timeline) -> list[str]:
    """The commits that follow all older ones and precede all younger ones by completion too.

    Apache Hudi's savepoint holds what is older by instant time, its restore undoes what is younger
    by completion. Where a commit is both or neither, a clean may take what the restore brings
    back: those rows are lost by Hudi itself.
    """
    ordered = sorted(timeline.commits, key=lambda i: i.time)
    ends = [
        (i.completion_time or "", 0 if i.completion_time else timeline.modified_ms[instant_key(i)])
        for i in ordered
    ]
    return [
        instant.time
        for at, instant in enumerate(ordered)
        if max(ends[: at + 1]) == ends[at] == min(ends[at:])
    ]


@dataclass(frozen=True, slots=True)
class Ran:
    """One service: monotonic begin and end are for people, ``failed`` is Hudi's own text."""

    service: str
    began: float
    ended: float
    instant: str = ""
    failed: str = ""


class Services:
    """Runs Hudi's services in rounds, each in an order by the seed (a ``with`` block).

    After ``rounds`` the file ``enough`` in the folder tells writers to end; the services go on
    until the block does.
    """

    def __init__(
        self, settings: Mapping[str, str], storage: Storage, folder: Path, seed: str,
        chosen: tuple[str, ...] = SERVICES, pause_s: float = 1.0, rounds: int = 1,
    ) -> None:  # fmt: skip
        self.ran: list[Ran] = []
        #: why the session ended before its time
        self.died = ""
        self._storage, self._lots = storage, random.Random(f"{seed}/services")
        self._chosen = chosen
        self._pause_s, self._rounds = pause_s, rounds
        self.enough = folder / "enough"
        self._log = folder / "services.events"
        self.peer = SparkPeer("services", "hudi", settings, module="integration.storm_hudi")
        path = storage.root
        self.peer.sql(f"create table {NAME} using hudi location '{path}'")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="services")

    def __enter__(self) -> Services:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if not self.died:
            self._finish_what_is_pending()

    def close(self) -> None:
        """End the session."""
        self.peer.close()

    @property
    def counts(self) -> Counter[str]:
        """How many services succeeded, by name; " failed" stands behind those that did not."""
        return Counter(one.service + (" failed" if one.failed else "") for one in self.ran)

    def _run(self) -> None:
        try:
            turn = 0
            while not self._stop.is_set():
                self._round()
                turn += 1
                if turn == self._rounds:
                    self.enough.touch()
        except PeerError as error:
            self.died = str(error)
        finally:
            self.enough.touch()

    def _round(self) -> None:
        """Each service once; what needs a savepoint or another commit comes once it is there."""
        left = self._lots.sample(self._chosen, len(self._chosen))
        for service in (*left, *left, *left):
            if service not in left or (service == "delete savepoint" and "restore" in left):
                continue
            if self._stop.wait(self._lots.random() * self._pause_s):
                return
            if self._serve(service):
                left.remove(service)

    def _serve(self, service: str) -> bool:
        """Run a service; False where there is nothing for it."""
        timeline = open_table(self._storage).timeline()
        instant = self._instant_for(service, timeline)
        if instant is None:
            return False
        ran = self._call(service, instant)
        if ran.failed and service in ("restore", "cluster", *LOG_SERVICES):
            self._finish_what_is_pending()
        return True

    def _instant_for(self, service: str, timeline: Timeline) -> str | None:
        """What the service is asked to work on; None where there is nothing, "" for no instant.

        Savepoints and roll-backs are of commits after the last clean. One by versions does not
        say which older states are whole, and Hudi would go back to one that is not.
        """
        saved = [i.time for i in timeline.completed if i.action is Action.SAVEPOINT]
        cleaned = max((i.time for i in timeline.instants if i.action is Action.CLEAN), default="")
        commits = [i.time for i in timeline.commits]
        if service == "savepoint":
            whole = (time for time in uncrossed(timeline)[-4:] if time > cleaned)
            fresh = [time for time in whole if time not in saved]
            return self._lots.choice(fresh) if fresh and len(saved) < 2 else None
        if service in ("delete savepoint", "restore"):
            return self._lots.choice(saved) if saved else None
        if service == "roll back":
            last = commits[-1] if commits else None
            return None if last is None or last in saved or last < cleaned else last
        return ""

    def _finish_what_is_pending(self) -> None:
        """Restores that began, plans for logs, and clusterings: a failed one is rolled back."""
        for turn in range(AGAIN):
            timeline = open_table(self._storage).timeline()
            saved = [i.time for i in timeline.completed if i.action is Action.SAVEPOINT]
            restores = [i for i in timeline.pending if i.action is Action.RESTORE]
            plans = [
                i.time for i in timeline.pending
                if i.action in (Action.CLUSTERING, Action.REPLACECOMMIT) and self._is_plan(i.time)
            ]  # fmt: skip
            actions = {i.action for i in timeline.pending}
            of_logs = [service for action, service in FINISHES.items() if action in actions]
            if not restores and not plans and not of_logs:
                return
            for instant in saved if restores else ():
                # Hudi takes up where it broke off, if it is asked for the same savepoint.
                self._call("restore", instant)
            for service in of_logs if turn < 2 else ():
                self._call(service, "")
            if plans and turn == 0:
                self._call("finish clustering", "")
            for instant in plans if turn else ():
                self._call("undo clustering", instant)

    def _is_plan(self, time: str) -> bool:
        table = open_table(self._storage)
        timeline = table.timeline()
        for instant in timeline.at(time):  # type: ignore[arg-type]
            if instant.state is State.COMPLETED:
                return False
            if instant.action is Action.CLUSTERING:
                return True
        # Before table version 8 a clustering is a replacecommit whose request holds the plan.
        try:
            found = self._storage.read(f"{timeline.folder}/{time}.replacecommit.requested")
        except FileNotFoundError:
            return False
        return b"CLUSTER" in found

    def _call(self, service: str, instant: str) -> Ran:
        lots, began, failed = self._lots, time.time(), ""
        self._tell(service, instant, "begins")
        try:
            if service in METHODS:
                self.peer.call(METHODS[service], path=self._storage.root)
            else:
                given = {"name": NAME, "instant": instant, "kept": lots.randint(2, 5),
                         "versions": lots.randint(1, 2), "groups": lots.randint(1, 2)}  # fmt: skip
                self.peer.sql("call " + PROCEDURES[service].format(**given))
        except PeerError as error:
            if error.kind == "Died":
                raise
            # After a restore Hudi looks whether it is the last, which others' commits make it not.
            failed = "" if RESTORED in error.text else causes(error)
        ran = Ran(service, began, time.time(), instant, failed)
        self.ran.append(ran)
        self._tell(service, instant, f"failed {failed}" if failed else "ended")
        return ran

    def _tell(self, service: str, instant: str, what: str) -> None:
        with self._log.open("a") as kept:
            kept.write(f"{time.time():.3f} {service} {instant} {what}\n")


@contextmanager
def client_of(spark: Any, path: str, name: str = NAME) -> Iterator[Any]:
    """The write client that Hudi's procedures make, which takes the table's lock."""
    jvm = spark._jvm
    none = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    make = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
    client = make(spark._jsparkSession, path, none, jvm.scala.Option.apply(name))
    try:
        yield client
    finally:
        client.close()


def archive(spark: Any, path: str) -> None:
    """Archive."""
    with client_of(spark, path) as client:
        client.archive()


def merge_logs(spark: Any, path: str) -> None:
    """Plan a log compaction and run it; nothing happens where there is nothing to merge."""
    nothing = spark._jvm.org.apache.hudi.common.util.Option.empty()
    with client_of(spark, path) as client:
        planned = client.scheduleLogCompaction(nothing)
        if planned.isPresent():
            client.logCompact(planned.get(), True)


def merge_logs_by_plan(spark: Any, path: str) -> None:
    """Run the log compactions that are planned."""
    with client_of(spark, path) as client:
        client.runAnyPendingLogCompactions()


BY_CLIENT = (archive, merge_logs, merge_logs_by_plan)


def main() -> None:
    """The worker of the peers, and archiving."""
    from integration.peers.worker import Worker, session

    answers = claim_stdout()
    worker = Worker(sys.argv[1], session(sys.argv[1], json.loads(sys.argv[2])))
    serve(
        answers,
        {
            "read": worker.read,
            "write": worker.write,
            "sql": worker.sql,
            **{one.__name__: partial(one, worker.spark) for one in BY_CLIENT},
        },
    )


if __name__ == "__main__":
    main()
