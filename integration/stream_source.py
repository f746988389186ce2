"""The source of a stream under test: one file is one batch, and its number tells its rows.

Inserted rows have keys of their own, so a batch that came twice shows. Upserted ones partly have
the same keys in each file, and the newest counts.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = "k string, p string, v int, t int"
PARTITIONS = 3
DS = "hoodie.datasource.write."
NAME = DS + "streaming.checkpoint.identifier"

MERGE_ON_READ = {
    DS + "table.type": "MERGE_ON_READ",
    "hoodie.compact.inline.max.delta.commits": "2",
    # Known keys go to logs, and no base file is rewritten for new ones.
    "hoodie.parquet.small.file.limit": "0",
}

#: key, partition, and the number of the file
Row = tuple[str, str, int]


def options_of(operation: str, version: int, logs: bool = False) -> dict[str, str]:
    """What every stream is given; its heartbeat lapses after seconds.

    ``logs``: the table is merge-on-read, and compacted after each second commit.
    """
    return (MERGE_ON_READ if logs else {}) | {
        "hoodie.table.name": "streamed",
        "hoodie.write.table.version": str(version),
        DS + "recordkey.field": "k",
        DS + "partitionpath.field": "p",
        "hoodie.table.ordering.fields": "t",
        DS + "operation": operation,
        "hoodie.client.heartbeat.interval_in_ms": "1000",
        "hoodie.client.heartbeat.tolerable.misses": "2",
    }


@dataclass(frozen=True, slots=True)
class Source:
    """The files of one stream; ``prefix`` keeps the keys of two streams apart."""

    prefix: str
    operation: str
    files: int
    rows: int = 24

    def batch(self, number: int) -> list[Row]:
        """The rows of a file."""
        own = self.rows if self.operation != "upsert" else self.rows // 2
        names = [f"{self.prefix}f{number}r{each}" for each in range(own)]
        names += [f"{self.prefix}s{each}" for each in range(self.rows - own)]
        return [(name, f"p{at % PARTITIONS}", number) for at, name in enumerate(names)]

    def wanted(self, files: Iterable[int] | None = None) -> Counter[Row]:
        """The rows of the table when each of these files is in once; without files, all."""
        rows = [row for number in files or range(self.files) for row in self.batch(number)]
        if self.operation != "upsert":
            return Counter(rows)
        return Counter({row[:2]: row for row in rows}.values())

    def put(self, folder: Path, first: int = 0, end: int | None = None) -> None:
        """Write files into ``folder`` so that Spark takes them in the order of their numbers."""
        folder.mkdir(exist_ok=True)
        for number in range(first, self.files if end is None else end):
            file = folder / f"{number:04d}.json"
            lines = [{"k": k, "p": p, "v": v, "t": v} for k, p, v in self.batch(number)]
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def rows_of(found: Iterable[Mapping[str, Any]]) -> Counter[Row]:
    """What a reader gives, as rows."""
    return Counter((row["k"], row["p"], row["v"]) for row in found)


def differences(who: str, found: Counter[Row], wanted: Counter[Row]) -> list[str]:
    """How rows differ, in at most one line."""
    if found == wanted:
        return []
    lost, extra = sorted((wanted - found).elements()), sorted((found - wanted).elements())
    of = [sorted({row[2] for row in rows}) for rows in (lost, extra)]
    text = (
        f"{who}: {len(lost)} rows lost, of the files {of[0]}; {len(extra)} too many, of the "
        f"files {of[1]}; for example {(lost + extra)[:3]}"
    )
    return [text]
