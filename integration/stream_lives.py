"""The lives of a stream's driver, one after the other, and what must be true after the last."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyhudi
from integration.peers.spark import child_environment
from integration.strays import stray_files
from integration.stream_driver import FAILED, DriverSpec
from integration.stream_kills import Trouble, step_of
from integration.stream_source import Row, Source, differences, rows_of
from pyhudi.format.table_config import TableType
from pyhudi.services.failed_writes import clean_failed_writes
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from tests.reads.merged_table import opened, rows

#: what a heartbeat needs to lapse
LAPSE_S = 3.5


@dataclass
class Lives:
    """A stream with its folder: its checkpoint, and what befell its drivers."""

    folder: Path
    spec: DriverSpec
    ended: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    @staticmethod
    def begin(
        source: Source, folder: Path, table: Path, options: dict[str, str], **more: Any
    ) -> Lives:
        """Put the source's files; ``more`` are fields of ``DriverSpec``."""
        own = folder / f"stream{source.prefix}"
        own.mkdir(parents=True)
        source.put(own / "files")
        spec = DriverSpec(
            str(table), str(own / "files"), str(own / "checkpoint"), str(own / "deaths"), options,
            **more,
        )  # fmt: skip
        return Lives(own, spec)

    @staticmethod
    def of_table(
        folder: Path, source: str, table: Path, options: dict[str, str], limit: dict[str, str],
        parts: int,
    ) -> Lives:  # fmt: skip
        """A stream of the table ``source`` with a folder of its own; ``limit`` is of a batch."""
        names = ("checkpoint", "deaths")
        checkpoint, deaths = (str(folder / name) for name in names)
        spec = DriverSpec(
            str(table), source, checkpoint, deaths, options, follows=limit, parts=parts
        )
        return Lives(folder, spec)

    def live(self, *troubles: Trouble, **more: Any) -> str:
        """One life: ``killed``, ``failed`` by an error of pyhudi, or ``done``."""
        spec = replace(self.spec, troubles=[asdict(each) for each in troubles], **more)
        log = self.folder / "log"
        begun = log.stat().st_size if log.exists() else 0
        with log.open("ab") as noise:
            code = subprocess.run(
                [sys.executable, "-m", "integration.stream_driver", json.dumps(asdict(spec))],
                env=child_environment(sys.executable), stdout=noise, stderr=noise, check=False,
            ).returncode  # fmt: skip
        end = {0: "done", -signal.SIGKILL: "killed", FAILED: "failed"}.get(code)
        if end is None:
            raise AssertionError(f"the driver ended with {code}:\n{log.read_text()[-4000:]}")
        if end == "failed":
            self.errors.append(log.read_bytes()[begun:].decode(errors="replace"))
        self.ended[end] += 1
        return end

    def finish(self) -> None:
        """Live without trouble until all is in."""
        for _ in range(3):
            if self.live() == "done":
                return
        raise AssertionError(f"the stream does not get through: {self.errors[-1]}")

    @property
    def deaths(self) -> Counter[str]:
        """The steps at which drivers died."""
        file = Path(self.spec.deaths)
        return Counter(map(step_of, file.read_text().splitlines())) if file.exists() else Counter()

    def noted(self) -> set[int]:
        """The batches that Spark's own commit log has."""
        log = Path(self.spec.checkpoint) / "commits"
        found = log.iterdir() if log.exists() else ()
        return {int(file.name) for file in found if file.name.isdecimal()}


def on_disk(table: Path) -> Counter[Row]:
    """The rows of the files that the timeline shows."""
    return rows_of(rows(opened(table), "k", "p", "v"))


def settled(table: Path, options: dict[str, str]) -> list[str]:
    """What is left after one ``pyhudi clean --failed-writes``: nothing may be.

    A heartbeat without an instant counts until it has lapsed. The plan of a compaction stays until
    it has run, so plans whose runs have died are run here.
    """
    time.sleep(LAPSE_S)
    clean_failed_writes(str(table), options=options)
    if open_table(LocalStorage(str(table))).config.table_type is TableType.MERGE_ON_READ:
        pyhudi.compact(str(table), op="run", options=options)
    return [f"left after settling: {name}" for name in sorted(stray_files(table))]


def problems_of(
    table: Path, wanted: Counter[Row], readers: Iterable[Any], options: dict[str, str]
) -> list[str]:
    """What is wrong with the table: by its files, by each reader, and by what is left."""
    found = settled(table, options) + differences("the files", on_disk(table), wanted)
    for reader in readers:
        found += differences(reader.name, rows_of(reader.read(table).rows), wanted)
    return found
