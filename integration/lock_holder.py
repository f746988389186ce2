"""A process that takes a table's lock, says so and does nothing more, until it is killed."""

from __future__ import annotations

import json
import sys
import time

from pyhudi.clock import SystemClock
from pyhudi.config import resolve_write
from pyhudi.locks.base import LockOwner
from pyhudi.locks.open import LockOpener
from pyhudi.storage.base import Storage
from pyhudi.storage.open import open_storage


def main() -> None:
    said = json.loads(sys.argv[1])
    clock = SystemClock()

    def storage(root: str) -> Storage:
        return open_storage(root, said["hadoop"], clock)

    opener = LockOpener(clock, storage)
    lock = opener.open(resolve_write(said["options"]).lock, "rides", storage(said["root"]))
    lock.acquire(20, LockOwner.this_process(said["instant"]))
    print("held", flush=True)
    time.sleep(3_600)


if __name__ == "__main__":
    main()
