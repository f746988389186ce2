"""The put that decides a commit: the checks before each try, and the look back afterwards.

Invariants: all tries have one name, so a retry cannot commit twice. Each try is sent under a lease
that outlasts a put. After a try without an answer, the next one also needs a timeline that still
allows the commit. From then on no error is a known failure, since that try may land. The lock is
kept until it can no longer land: otherwise a successor would miss it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from pyhudi.errors import (
    CommitConflict,
    CommitUnknown,
    FileExists,
    StorageError,
    WriterFenced,
)
from pyhudi.format.commit_metadata import CommitMetadata, render_commit
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.states import check_step, completed_action
from pyhudi.timeline.table import Table
from pyhudi.transactions.instants import path_of, put_instant
from pyhudi.transactions.recovery.rollback import rollback_of
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

PUBLISH_ATTEMPTS = 3

Look = Callable[[Timeline], None]


class FinalPut:
    """Puts the completed file of an instant under the writer's lock.

    ``inflight`` and ``done`` are its two states; ``who`` names the write. ``fence`` and ``compare``
    look at a timeline: ``fence`` raises if the write was undone, ``compare`` if it conflicts with
    commits since it was judged.
    """

    def __init__(
        self,
        writer: Writer,
        inflight: Instant,
        done: Instant,
        metadata: CommitMetadata,
        who: str,
        fence: Look,
        compare: Look,
    ) -> None:
        self._table, self._lock, self._clock = writer.table, writer.lock, writer.clock
        self._inflight, self._done = inflight, done
        self._who = who
        self._fence = fence
        self._compare = compare
        self._data = render_commit(metadata, writer.table.config.layout)
        self.path = path_of(writer.table, done)
        #: whether the outcome of a try is unknown: it may have landed, or may still land
        self.in_doubt = False
        #: when a try was last given up, by the monotonic clock in seconds
        self._given_up = 0.0
        self._cause: Exception | None = None

    def send(self) -> None:
        """Put the file; an error is a known failure, unless the outcome is ``in_doubt``.

        ``CommitUnknown`` if no look shows the outcome, or if the commit landed but is not correct.
        """
        refused: CommitUnknown | None = None
        try:
            landed = any(map(self._lands, range(1, PUBLISH_ATTEMPTS + 1)))
        except CommitUnknown as unknown:
            landed, refused = False, unknown
        if not landed:
            self.wait_out()
            if not self._has_landed():
                raise refused or self._unknown(
                    f"{PUBLISH_ATTEMPTS} times: it may or may not have landed."
                ) from self._cause
        self._look_back()
        self.in_doubt = False

    def wait_out(self) -> None:
        """Wait until no try can land any more, by the storage's limit for a put."""
        rest = self._given_up + self._table.storage.put_timeout_s - self._clock.monotonic()
        if rest > 0:
            self._clock.sleep(rest)

    def _lands(self, attempt: int) -> bool:
        """One try; returns whether the file exists afterwards."""
        storage = self._table.storage
        check_step(self._inflight, self._done)
        if not self.in_doubt:
            self._lock.check(storage.put_timeout_s)
        elif self._has_landed():
            return True
        else:
            self._look_again()
        doubted, self.in_doubt = self.in_doubt, True
        # Nothing may come between the look at the lease and the put, not even a look at the clock.
        try:
            put_instant(self._table, self._inflight, self._done, self._data)
        except FileExists:
            # Only this writer knows this name: an earlier try has landed.
            return True
        except Exception as error:
            # A refusal says nothing about an earlier try that may still land.
            if isinstance(error, StorageError) and error.had_no_effect and not doubted:
                self.in_doubt = False
                raise
            self._given_up, self._cause = self._clock.monotonic(), error
            log.warning("%s: no answer to the final put (try %d): %s", self._who, attempt, error)
            return False
        except BaseException:
            # Interrupted: the request may still be running.
            self._given_up = self._clock.monotonic()
            self.wait_out()
            raise
        return True

    def _look_again(self) -> None:
        """``CommitUnknown`` if the put must not be sent again after a try without an answer."""
        try:
            now = self._table.timeline()
            self._fence(now)
            self._compare(now)
            # Checked last, since a look at the timeline takes time.
            self._lock.check(self._table.storage.put_timeout_s)
        except Exception as error:
            raise self._unknown(
                f"and was not sent again: it may or may not have landed. The reason not to: {error}"
            ) from error

    def _has_landed(self) -> bool:
        """Whether a look at the storage shows that an unanswered put has landed."""
        try:
            return self._table.storage.exists(self.path)
        except Exception:
            return False

    def _look_back(self) -> None:
        """Check whether the write was undone, or overtaken, during its put.

        Under the EAGER policy Apache Hudi rolls back pending writes without the lock. And a put
        that cannot be given up may have outlasted the lease.
        """
        try:
            now = self._table.timeline()
            undone = is_undone(self._table, now, self._done.time, self._done.action)
        except Exception as error:
            log.warning("%s: committed, but it was not looked at again: %s", self._who, error)
            return
        if undone:
            self._take_back()
        others = tuple(i for i in now.instants if i.time != self._done.time)
        try:
            self._compare(replace(now, instants=others))
        except CommitConflict as conflict:
            theirs, both = conflict.theirs, ", ".join(map(str, conflict.overlap))
            raise CommitUnknown(
                f"{self._who} has landed as {self.path}, but {theirs} came between the last look "
                f"and the put, and both changed {both}. Either that writer does not take this "
                "table's lock, or the put took longer than the lease on it. Neither write was "
                "undone, and one of them may hide rows of the other. Compare the rows of both, and "
                "run again the one whose rows are missing.",
                instant=self._done.time,
                path=self.path,
                theirs=theirs,
            ) from conflict
        except Exception as error:
            log.warning("%s: committed, but not compared again: %s", self._who, error)

    def _take_back(self) -> None:
        """Delete our completed file: another program has deleted, or deletes, its data files."""
        storage, instant = self._table.storage, self._done.time
        try:
            # We hold the lock, so nobody has built on it yet.
            self._lock.check(storage.put_timeout_s)
            storage.delete([self.path])
        except Exception as error:
            raise CommitUnknown(
                f"{self._who} was rolled back by another writer during its final put, and its "
                f"completed file could not be deleted: {error} Look for {self.path}: if it "
                "exists, files that it names may be gone. Let the program that rolled it back "
                "roll it back once more, then run the write again.",
                instant=instant,
                path=self.path,
            ) from error
        self.in_doubt = False
        raise WriterFenced(
            f"{self._who} was rolled back by another writer during its final put. Its completed "
            "file was deleted again, so nothing of it is visible. Run the write again. Apache Hudi "
            "does this under hoodie.clean.failed.writes.policy=EAGER, its default: set it to LAZY "
            "if both write.",
            instant=instant,
        )

    def _unknown(self, what: str) -> CommitUnknown:
        return CommitUnknown(
            f"The final put of {self._who} got no answer {what} Nothing was deleted. Look for "
            f"{self.path}: if it exists, the write is committed; if not, the next writer rolls it "
            "back.",
            instant=self._done.time,
            path=self.path,
        )


def is_undone(table: Table, now: Timeline, time: InstantTime, action: Action) -> bool:
    """Whether the write ``time`` is being rolled back or was, whatever other files it has.

    A rollback between a writer's first and second file leaves the second, and one during the final
    put leaves the completed file. So the first file decides.
    """
    key = time, completed_action(action)
    return key not in now.requested or rollback_of(table, now, time) is not None


def check_alive(table: Table, now: Timeline, time: InstantTime, action: Action, who: str) -> None:
    """``WriterFenced`` if the write ``time`` is no longer inflight, or is being undone."""
    inflight = any(i.action is action and i.state is State.INFLIGHT for i in now.at(time))
    if not inflight or is_undone(table, now, time, action):
        raise WriterFenced(
            f"{who} was rolled back by another writer, which took it for dead: its instant is gone "
            "from the timeline. Nothing of it is visible. Run the write again; raise "
            "hoodie.client.heartbeat.interval_in_ms if this writer was only slow.",
            instant=time,
        )
