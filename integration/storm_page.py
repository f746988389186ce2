"""The parts of ``docs/storm.md``, and the one of the storms with Apache Hudi's services."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from integration.storm_weather import DOUBLED, Report

Line = tuple[str, ...]

HEADING = "## With Apache Hudi's services"
LOGS = "## Logs and Apache Hudi's services"
OURS = "## With services of ours"
COLUMNS = (
    "table version", "writers x upserts", "seed", "longest put, s", "late puts", "acknowledged",
    "undone", "retries", "killed", "paused", "fenced", "other failures", "unknown",
    "cleans", "archived", "savepoints", "restores", "roll-backs", "clusterings",
    "services that failed", "looks", "of them in time travel", "refused or gone",
    "doubled by Hudi", "seconds",
    "problems",
)  # fmt: skip
#: the columns of storms on merge-on-read tables
LOG_COLUMNS = tuple(
    each
    for name in COLUMNS
    for each in ([name, "compactions", "log compactions"] if name == "clusterings" else [name])
)
NAMED = 4  # columns that tell which storm it was

TEXT = f"""\
{HEADING}

`python -m integration.storm_services` writes this part. Writers, killed and stopped as above,
upsert into one table while one session of Apache Hudi 1.2.0 runs its services on it, each at least
once, in an order by the seed: it cleans by commits and by file versions, archives, clusters, makes
and deletes savepoints, restores the table to one, and rolls the newest commit back. Services and
writers share ZooKeeper's lock. Three readers plan and read the whole table; one look of three
travels to a commit. Now and then a put of a writer takes long: its effect comes late, or only its
answer, or no answer, or neither. The longest put outlasts a heartbeat, which lapses after 6 s; the
lock's lease is 1.4 times as long as the longest put.

Each look must give the rows that the commits of its own listing make: those that are listed and
those that were archived, none that was undone. An error that asks to try again counts as *refused
or gone*: the state was cleaned, archived or undone under the reader. At the end each acknowledged
commit is there once, or a restore or roll-back that came after it has undone it (*undone*); pyhudi,
hudi-rs and Apache Hudi read the same rows; no data file or open instant of a failed write is left.

Four things are Apache Hudi's own and no problem here. A restore may undo commits whose files a
clustering plan names, and leave the plan, which Hudi then neither runs nor takes back. A savepoint
holds what is older by instant time, and a restore undoes what is younger by completion: where the
two differ, rows are lost once a clean has run, so savepoints are made of commits where they do not.
Hudi also saves, rolls back and restores what a clean by versions has taken files of already: here
it is asked for commits after the last clean only.
A restore lists the timeline for its plan before it takes the lock: a commit that ends in between
stays though what it was built on is undone, and keys are double for every reader. Such looks are
counted (*doubled by Hudi*).

Apache Hudi's documentation asks to stop all writers for a restore. Its roll-back of a commit does
not look whether others have built on that commit, so its rows stay in the files of those others.
Where it rolls a clustering back that others have built on, keys are double for every reader until
the commits of those others are undone, too: such looks are counted with the others.
"""

LOG_TEXT = f"""\
{LOGS}

The storms with Apache Hudi's services above, on merge-on-read tables. Writers add logs and compact
nothing; Apache Hudi compacts and merges logs, too. *compactions* and *log compactions* are those
that completed. What a dead or failed service has planned is run by pyhudi at the end.

What is Apache Hudi's own above is so here, and this beside it. Its log compaction gives the rows
that it merges its own commit time. In version 6 its roll-back fails, since it looks for a folder
that only later versions have, and so do some of its log compactions, for other reasons. Where it
rolls back the commit that began a file group, logs of later writes stay without a base file. The
next write of pyhudi to such a partition compacts them first.
"""


def summary(report: Report) -> Sequence[object]:
    """A line of the table, in the order of ``COLUMNS`` or ``LOG_COLUMNS``."""
    figures = report.figures
    of_logs = (figures["COMPACT"], figures["LOG_COMPACT"])
    told, counts, ran, reads = report.told, report.told.counts, report.services, report.reads
    others = Counter(told.failed.values())
    del others["WriterFenced"]
    looks = sum(n for kind, n in reads.items() if kind.startswith("look"))
    travels = sum(n for kind, n in reads.items() if kind.endswith("in time travel"))
    away = sum(n for kind, n in reads.items() if kind.startswith(("gone", "expired", "refused")))
    saved = f"{ran['savepoint']}, {ran['delete savepoint']} deleted"

    def befell(what: str) -> str:
        with_lock = report.struck[what + " with the lock"]
        return f"{report.struck[what] + with_lock} ({with_lock})"

    return (
        report.version,
        str(report.weather.scale),
        report.seed,
        f"{report.weather.put_s:g}",
        counts["late"],
        figures["acknowledged"],
        figures["undone"],
        counts["retry"],
        befell("killed"),
        befell("paused"),
        counts["WriterFenced"],
        ", ".join(f"{n} {kind}" for kind, n in sorted(others.items())) or 0,
        len(told.unknown),
        f"{ran['clean by commits']} + {ran['clean by versions']}",
        f"{figures['archived']} commits",
        saved,
        ran["restore"],
        ran["roll back"],
        ran["cluster"],
        *(of_logs if report.weather.scale.merge_on_read else ()),
        sum(n for name, n in ran.items() if name.endswith("failed")),
        looks + away,
        travels,
        away,
        figures[DOUBLED],
        f"{report.seconds:.0f}",
        len(report.problems) or "none",
    )


def parts_of(published: str) -> str:
    """What follows the storms without services: the parts of both kinds of services."""
    headings = (HEADING, LOGS, OURS)
    found = [place for heading in headings if (place := published.find(heading)) >= 0]
    return published[min(found) :] if found else ""


def part_of(published: str, heading: str = HEADING) -> str:
    """The part of a page with this heading; "" where there is none."""
    _, found, rest = published.partition(heading)
    return found + rest.partition("\n## ")[0]


def with_services(published: str, reports: Iterable[Report]) -> str:
    """The page with a line for each of these storms; lines of others stay."""
    raised = list(reports)
    page = _with_lines(published, TEXT, COLUMNS, [r for r in raised if not _on_logs(r)])
    on_logs = [r for r in raised if _on_logs(r)]
    return _with_lines(page, LOG_TEXT, LOG_COLUMNS, on_logs) if on_logs else page


def _on_logs(report: Report) -> bool:
    return report.weather.scale.merge_on_read


def _with_lines(published: str, text: str, columns: Line, reports: Iterable[Report]) -> str:
    found = [tuple(map(str, summary(report))) for report in reports]
    lines = lines_of(part_of(published, text.partition("\n")[0]), NAMED, found)
    return with_part(published, text, [columns, *(lines[name] for name in sorted(lines))])


def lines_of(part: str, named: int, new: Iterable[Line]) -> dict[Line, Line]:
    """The lines of a part by their first ``named`` columns, with ``new`` in place of old ones."""
    rows = [line for line in part.splitlines() if line.startswith("| ")]
    old = [tuple(line.strip("| ").split(" | ")) for line in rows[2:]]
    return {line[:named]: line for line in (*old, *new)}


def with_part(published: str, text: str, table: Sequence[Line]) -> str:
    """The page with this part, which begins with its heading and ends with ``table``."""
    head, *rows = table
    lines = ("| " + " | ".join(line) + " |" for line in (head, ("---",) * len(head), *rows))
    new = f"{text}\n" + "\n".join(lines) + "\n"
    old = part_of(published, text.partition("\n")[0])
    return published.replace(old, new) if old else f"{published.rstrip()}\n\n{new}"
