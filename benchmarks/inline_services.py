"""``python -m benchmarks.inline_services``: what clean and archive cost the commits of a writer.

Two writers upsert the 20 rows of one file group again and again, without Spark, on local disk: one
with the services after each commit, which are on by default, one without. They take turns. A file
may go as soon as it is old, as if each commit came a minute after the last one; so each commit pays
for a clean, and every tenth for an archive. Then the writer with services goes on alone.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from integration.flows import OPTIONS, rows, silent
from integration.storm_writer import SEEDER, Spec, upserts_without_spark
from pyhudi.services import clean
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from pyhudi.timeline.view import VIEWS

OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
LAST = 200

Upsert = Callable[[pa.Table, str], object]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=1_000, help="of each writer; 1,000")
    parser.add_argument("--long", type=int, default=0, help="in the end, of that with services")
    given = parser.parse_args(arguments)
    clean.SPARED_MS = 0
    with tempfile.TemporaryDirectory() as folder:
        roots = {"without": Path(folder, "without"), "with": Path(folder, "with")}
        writers = {"without": writer(roots["without"], OFF), "with": writer(roots["with"], {})}
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in writers}
        for number in range(given.commits):
            for name in writers if number % 2 else reversed(list(writers)):
                took[name].append(timed(writers[name]))
        print("| of each commit, ms | wall: median (quartiles) | CPU: median |")
        print("| --- | --- | --- |")
        for name, found in took.items():
            for title, part in (("all", found), (f"first {LAST}", found[:LAST])):
                print(f"| {name} services, {title} | {spread(part)} |")
        for name, root in roots.items():
            print(f"{name}: {shape(root)}")
        while len(took["with"]) < given.long:
            took["with"].append(timed(writers["with"]))
        if given.long:
            print(f"commits 10 to {LAST}: {spread(took['with'][10:LAST])}")
            print(f"the last {LAST} of {given.long}: {spread(took['with'][-LAST:])}")
            print(f"with services: {shape(roots['with'])}")


def writer(root: Path, options: dict[str, str]) -> Upsert:
    """Upserts by one writer of a fresh table."""
    settings = {**OPTIONS, **options}
    first = Spec(str(root), settings, {}, 60.0, "", SEEDER, 1, 0, 1)
    upserts_without_spark(first, silent)(rows(), "first")
    return upserts_without_spark(Spec(str(root), settings, {}, 60.0, "", 0, 1, 0, 1), silent)


def timed(upsert: Upsert) -> tuple[float, float]:
    """Wall and CPU milliseconds of one upsert."""
    wall, cpu = time.perf_counter(), time.process_time()
    upsert(rows(), "again")
    return 1_000 * (time.perf_counter() - wall), 1_000 * (time.process_time() - cpu)


def spread(found: Sequence[tuple[float, float]]) -> str:
    low, median, high = statistics.quantiles([wall for wall, _ in found], n=4)
    cpu = statistics.median(cpu for _, cpu in found)
    return f"{median:.1f} ({low:.1f} to {high:.1f}) | {cpu:.1f}"


def shape(root: Path) -> str:
    """The size of a table, and how long a fresh look at it takes."""
    files = [path for path in root.rglob("*") if path.is_file()]
    data = sum(".hoodie" not in path.parts for path in files)
    archived = sum("history" in path.parts for path in files)
    times = []
    for _ in range(5):
        VIEWS.forget(LocalStorage(str(root)))
        began = time.perf_counter()
        table = open_table(LocalStorage(str(root)))
        table.view(table.timeline()).check()
        times.append(1_000 * (time.perf_counter() - began))
    size = sum(path.stat().st_size for path in files)
    return (
        f"{size / 1e6:.1f} MB, {data} data files, {archived} files in the archive, "
        f"{len(files)} in all; opened in {statistics.median(times):.1f} ms"
    )


if __name__ == "__main__":
    main()
