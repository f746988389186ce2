"""A process that sleeps past its lease with the lock in hand, as in a long pause of its machine."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.locks.filesystem import FilesystemLock
from pyhudi.locks.leased import QUEUE_PAUSE_MS, LeasedLock
from pyhudi.locks.numbered import NumberedFiles
from pyhudi.locks.zookeeper import ZookeeperLock
from pyhudi.locks.zookeeper_session import ZookeeperPlace
from pyhudi.storage.local import LocalStorage
from tests.servers.zookeeper import Zookeeper

BOB = LockOwner("20240101000000002", "bob.example", 22)
NAMES: dict[str, Any] = {
    "FilesystemLock": FilesystemLock,
    "LeasedLock": LeasedLock,
    "LocalStorage": LocalStorage,
    "NumberedFiles": NumberedFiles,
    "QUEUE_PAUSE_MS": QUEUE_PAUSE_MS,
    "ZookeeperLock": ZookeeperLock,
    "ZookeeperPlace": ZookeeperPlace,
}
HOLDER = """
    import sys
    from pyhudi.errors import HudiError
    from pyhudi.locks.base import LockOwner
    from pyhudi.locks.filesystem import FilesystemLock
    from pyhudi.locks.leased import QUEUE_PAUSE_MS, LeasedLock
    from pyhudi.locks.numbered import NumberedFiles
    from pyhudi.locks.zookeeper import ZookeeperLock
    from pyhudi.locks.zookeeper_session import ZookeeperPlace
    from pyhudi.storage.local import LocalStorage
    lock = {lock}
    lock.acquire(20, LockOwner("20240101000000001", "sleeper.example", 11))
    print("held", flush=True)
    sys.stdin.readline()
    for act in (lock.check, lock.renew):
        try:
            act()
            print("may go on", flush=True)
        except HudiError as error:
            print(type(error).__name__, flush=True)
    lock.release()
    print("released", flush=True)
"""

_numbers = itertools.count()


@pytest.fixture(params=["lock file", "numbered files", "zookeeper"])
def lock(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Code that makes a handle, with a lease of about a second."""
    storage = f"LocalStorage({str(tmp_path)!r})"
    if request.param == "lock file":
        return f"FilesystemLock({storage}, lease_s=1.5, margin_s=0.4)"
    if request.param == "numbered files":
        return f"LeasedLock(NumberedFiles({storage}, lease_s=1.5, margin_s=0.4))"
    server: Zookeeper = request.getfixturevalue("zookeeper")
    place = ZookeeperPlace(server.address, f"/paused/{next(_numbers)}", 1.5, 5.0)
    return f"LeasedLock(ZookeeperLock({place!r}), None, QUEUE_PAUSE_MS)"


def test_a_holder_that_was_paused_past_its_lease_is_fenced_and_harms_nobody(lock: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(HOLDER).format(lock=lock)]
    heir: TableLock = eval(lock, NAMES)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as sleeper:
        assert sleeper.stdin is not None
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == "held\n"
        sleeper.send_signal(signal.SIGSTOP)
        try:
            heir.acquire(30, BOB)
        finally:
            sleeper.send_signal(signal.SIGCONT)
        sleeper.stdin.write("\n")
        sleeper.stdin.flush()

        said = [sleeper.stdout.readline().strip() for _ in range(3)]

    assert said[0] in ("WriterFenced", "StorageError")
    assert said[1:] == ["WriterFenced", "released"]
    holder = heir.describe()
    assert holder is not None
    assert holder.owner == BOB
    heir.release()
