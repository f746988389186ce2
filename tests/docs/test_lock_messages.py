"""What a user reads when a lock is not to be had: each message of docs/locks.md is raised here.

``python -m tests.docs.test_lock_messages`` writes the messages into the page again.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from pyhudi.config import LockOptions, resolve_write
from pyhudi.errors import HudiError
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.locks.open import LockOpener
from pyhudi.locks.storage_lock import PATH
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from tests.fakes import FakeClock

PAGE = Path(__file__).parents[2] / "docs" / "locks.md"
WIDTH = 96
NOW_MS = 1_714_566_605_000
ANN = LockOwner("20240501123005111", "etl-1.example.org", 4711, "nightly load")
BOB = LockOwner("20240501123009222", "etl-2.example.org", 4712)
LOCK = "hoodie.write.lock."
NOBODY = "thrift://127.0.0.1:1"


class Lake:
    """A table on an object store, and time under control."""

    def __init__(self) -> None:
        self.clock = FakeClock(now_ms=NOW_MS)
        self.storage = MemoryStorage("s3a://lake/trips", self.clock)

    def lock(self, provider: str, **said: str) -> TableLock:
        given = {LOCK + key.replace("__", "."): text for key, text in said.items()}
        options: LockOptions = resolve_write({LOCK + "provider": provider, **given}).lock
        opener = LockOpener(self.clock, lambda root: MemoryStorage(root))
        return opener.open(options, "trips", self.storage)


def taken(lake: Lake) -> None:
    lake.lock("storage").acquire(0, ANN)
    lake.lock("storage").acquire(20, BOB)


def taken_by_hudi(lake: Lake) -> None:
    content = {"expired": False, "validUntil": NOW_MS + 300_000, "owner": "0c6e7a1b-4f2d"}
    lake.storage.put_if_absent(PATH, json.dumps(content).encode())
    lake.lock("storage").acquire(20, BOB)


def lost(lake: Lake) -> None:
    sleeper = lake.lock("storage")
    sleeper.acquire(0, ANN)
    lake.lock("storage").acquire(90, BOB)
    sleeper.check()


def away(lake: Lake) -> None:
    place = {"hivemetastore__database": "lake", "hivemetastore__table": "trips"}
    lake.lock("hive_metastore", **place, hivemetastore__uris=NOBODY).acquire(20, ANN)


def missing(lake: Lake) -> None:
    lake.lock("zookeeper", zookeeper__base_path="/hudi/locks")


def unfit(lake: Lake) -> None:
    lake.storage = LocalStorage("/data/trips")  # type: ignore[assignment]
    lake.lock("storage")


MESSAGES: dict[str, Callable[[Lake], None]] = {
    "taken": taken,
    "taken by hudi": taken_by_hudi,
    "lost": lost,
    "away": away,
    "missing": missing,
    "unfit": unfit,
}
_BLOCK = re.compile(r"<!-- message: ([\w ]+) -->\n```text\n(.*?)```", re.DOTALL)


def raised(name: str) -> str:
    """The message, in lines as the page has them."""
    with pytest.raises(HudiError) as error:
        MESSAGES[name](Lake())
    text = str(error.value).replace(NOBODY, "thrift://metastore:9083")
    text = re.sub(r"(9083: ).*?(\. Check)", r"\1Could not connect\2", text)
    return "\n".join(textwrap.wrap(text, WIDTH, break_on_hyphens=False, break_long_words=False))


@pytest.mark.parametrize("name", MESSAGES)
def test_the_page_shows_the_message(name: str) -> None:
    shown = dict(_BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    assert shown[name].strip() == raised(name)


def test_the_page_shows_no_other_messages() -> None:
    assert {name for name, _ in _BLOCK.findall(PAGE.read_text(encoding="utf-8"))} == set(MESSAGES)


def main() -> None:
    """Write what the code says into the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        _BLOCK.sub(lambda m: f"<!-- message: {m[1]} -->\n```text\n{raised(m[1])}\n```", text),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
