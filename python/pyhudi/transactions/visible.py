"""A guard for stores with late listings: a commit waits until they show what it did.

S3, MinIO, HDFS and local disks show a change at once and need no such wait. Some other stores with
the same protocols, and caches in front of a store, show it later. A reader of such a store would
miss files that a commit names, or find files that it deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from pyhudi.clock import Clock
from pyhudi.errors import WriteFailed
from pyhudi.format.instants import InstantTime
from pyhudi.storage.base import Storage

LIST_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class VisibilityPolicy:
    """At most this many looks; the pauses, in milliseconds, double up to the longest."""

    first_ms: int = 2_000
    longest_ms: int = 300_000
    looks: int = 7


def await_visible(
    storage: Storage,
    clock: Clock,
    policy: VisibilityPolicy,
    instant: InstantTime,
    written: Iterable[str],
    deleted: Iterable[str],
) -> None:
    """Return once listings have all of ``written`` and none of ``deleted`` (table paths).

    ``WriteFailed``, a known failure, if they still do not at the last look.
    """
    missing, lingering = set(written), set(deleted)
    pause_ms = policy.first_ms
    for look in range(policy.looks):
        if look:
            clock.sleep(pause_ms / 1_000)
            pause_ms = min(2 * pause_ms, policy.longest_ms)
        listed = _listed(storage, missing | lingering)
        missing, lingering = missing - listed, lingering & listed
        if not missing and not lingering:
            return
    trouble = []
    if missing:
        trouble.append(f"does not list {len(missing)} new files ({min(missing)})")
    if lingering:
        trouble.append(f"still lists {len(lingering)} deleted files ({min(lingering)})")
    raise WriteFailed(
        f"After {policy.looks} looks the storage {' and '.join(trouble)}, so {instant} was not "
        "committed. Nothing of it is visible. Run it again; raise "
        "hoodie.consistency.check.max_checks if the storage's listings lag longer than that.",
        instant=instant,
    )


def _listed(storage: Storage, paths: Iterable[str]) -> set[str]:
    """Which of ``paths`` a listing shows; one listing for each folder, several at a time."""
    by_folder: defaultdict[str, set[str]] = defaultdict(set)
    for path in paths:
        by_folder[path.rpartition("/")[0]].add(path)
    found: set[str] = set()
    with ThreadPoolExecutor(LIST_THREADS) as pool:
        for folder, files in zip(by_folder, pool.map(storage.list, by_folder), strict=True):
            found |= by_folder[folder] & {file.path for file in files}
    return found
