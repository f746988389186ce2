"""Spools of dead statements, and how others see that a spool is in use.

A spool holds the rows of a statement whose instant has not begun, so no instant's heartbeat covers
it. Instead a file inside it is renewed as long as the statement lives. Apache Hudi neither reads
nor deletes spools.

Invariant: a spool is deleted only after a lapse of silence, by the storage's clock, or if its
process on this machine has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyhudi.clock import Clock
from pyhudi.storage.base import Storage
from pyhudi.transactions.heartbeat import (
    HeartbeatPolicy,
    ended_process,
    has_passed,
    last_words,
)

PREFIX: Final = ".spool-"
#: the file that is renewed
BEAT: Final = "alive"


def sweep_spools(
    storage: Storage, clock: Clock, policy: HeartbeatPolicy, folders: Iterable[str]
) -> None:
    """Delete those of ``folders`` that are spools of statements which died."""
    for folder in folders:
        if not folder.rsplit("/", 1)[-1].startswith(PREFIX):
            continue
        if ended_process(last_words(storage, BEAT, folder), policy) is not None:
            storage.delete_folder(folder)
            continue
        newest = max((file.modified_ms for file in storage.walk(folder)), default=None)
        # One without a file is about to get its first.
        if newest is not None and has_passed(storage, clock, newest, policy.lapse_ms):
            storage.delete_folder(folder)
