"""What a storm with pyhudi's own services came to, and its part of ``docs/storm.md``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from integration.storm_check import Told
from integration.storm_chronicle import Chronicle
from integration.storm_job import LOG_SERVICES, SERVICES
from integration.storm_page import OURS, lines_of, part_of, with_part
from integration.storm_victims import Scale

#: seconds between two turns of a service
RESTS_S: Mapping[str, float] = {
    "clean": 2.0, "archive": 3.0, "cluster": 5.0, "compact": 4.0, "merge logs": 2.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Season:
    """How hard a storm is, and how its commits are counted.

    A query is a long one after ``long_s`` seconds, and lasts from ``hold_s`` to twice as long;
    a clean spares for ``spared_ms`` what became old. ``spans`` parts of ``span_s`` seconds are
    counted, in which services rest ``counted_rest_s`` seconds, None for ``rests_s``. The first
    ``racing`` writers also race for keys that the table does not have. Queries that are not
    ``leased`` have no lease, so a storm of them must find a problem.
    """

    scale: Scale = field(default_factory=lambda: Scale(8, 12, 3, 1, 2, 1))
    racing: int = 2
    pace_s: float = 1.0
    rests_s: Mapping[str, float] = field(default_factory=lambda: RESTS_S)
    long_s: float = 1.0
    hold_s: float = 12.0
    spared_ms: int = 8_000
    file_bytes: int = 9_000
    span_s: float = 6.0
    spans: int = 24
    counted_rest_s: float | None = None
    gentle: bool = False
    leased: bool = True

    @property
    def services(self) -> tuple[str, ...]:
        """The services that run, each a process of its own."""
        if not self.scale.merge_on_read:
            return SERVICES
        # pyhudi does not merge the logs of version 6 alone.
        return LOG_SERVICES if self.scale.version > 6 else (*SERVICES, "compact")

    @property
    def rest(self) -> str:
        """How long services rest where commits are counted, in seconds."""
        if self.counted_rest_s is not None:
            return f"{self.counted_rest_s:g}"
        return f"{min(self.rests_s.values()):g} to {max(self.rests_s.values()):g}"

    @classmethod
    def on(cls, place: str) -> Season:
        """The storm for a lock: where commits are slow, more time is counted."""
        slow = place in ("hive", "storage", "s3-filesystem")
        return cls(span_s=20.0, spans=8) if slow else cls()


#: a storm for the tests: nothing is counted
SAMPLE = Season(
    Scale(4, 6, 1, 0, 1, 0), rests_s={"clean": 0.5, "archive": 0.5, "cluster": 1.0},
    pace_s=0.5, hold_s=3.5, spared_ms=3_000, long_s=0.3, spans=0, gentle=True,
)  # fmt: skip
#: the same on a merge-on-read table, with writers that leave time for log compactions
LOGS_SAMPLE = replace(
    SAMPLE,
    scale=replace(SAMPLE.scale, merge_on_read=True),
    rests_s={**SAMPLE.rests_s, "compact": 3.0, "merge logs": 0.3},
    pace_s=3.0,
)


@dataclass(frozen=True, slots=True)
class Span:
    """A part that was counted, in monotonic seconds: commits by writer, services running or not."""

    works: bool
    begin: float
    end: float
    commits: tuple[int, ...] = ()

    @property
    def rate(self) -> float:
        """Commits per second of all writers."""
        return sum(self.commits) / (self.end - self.begin)


@dataclass(slots=True)
class Report:
    """What a storm did and what was wrong afterwards."""

    lock: str
    storage: str
    season: Season
    seed: str
    told: Told
    struck: dict[str, Counter[str]] = field(default_factory=dict)
    services: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    reads: Counter[str] = field(default_factory=Counter)
    spans: list[Span] = field(default_factory=list)
    seconds: float = 0.0
    figures: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    chronicle: Chronicle | None = None


def ratio(spans: Iterable[Span]) -> tuple[float, float, float]:
    """Median commits per second without services and with them, and what the second is of the
    first; zeros where nothing was counted.
    """
    rates: dict[bool, list[float]] = {False: [], True: []}
    for span in spans:
        rates[span.works].append(span.rate)
    if not all(rates.values()) or not median(rates[False]):
        return 0.0, 0.0, 0.0
    without, beside = median(rates[False]), median(rates[True])
    return without, beside, beside / without


def least(spans: Iterable[Span]) -> float:
    """The same share for the writer that the services cost most, by all of its commits."""
    spans = list(spans)
    seconds = [sum(s.end - s.begin for s in spans if s.works is works) for works in (False, True)]
    shares = []
    for writer in range(len(spans[0].commits) if spans else 0):
        done = [
            sum(s.commits[writer] for s in spans if s.works is works) for works in (False, True)
        ]
        if all(seconds) and done[0]:
            shares.append(done[1] / seconds[1] / (done[0] / seconds[0]))
    return min(shares, default=0.0)


COLUMNS = (
    "lock", "storage", "writers x upserts", "acknowledged", "retries", "of them by services",
    "killed", "paused", "fenced", "other failures", "silent", "files cleaned", "commits archived",
    "clusterings", "compactions", "log compactions", "services that failed", "states held",
    "of them with replaced files", "files pulled away", "services rest, s",
    "commits/s without services", "with", "share", "of the slowest writer", "seconds", "problems",
)  # fmt: skip
NAMED = 3  # columns that tell which storm it was

TEXT = f"""\
{OURS}

`python -m integration.storm_own` writes this part. Eight writers without services of their own
upsert into one table beside three other processes of pyhudi: one cleans, one archives, one clusters
a partition's files by key. On a merge-on-read table two more compact it, and merge logs with each
other where no write runs (not on tables of version 6). They rest 2 s to 5 s between two turns,
where a job of services rests a minute by default, and keep so little that all have work. Three
readers hold one state of the table for 12 s to 24 s each, with the lease of a long query, and read
its files a second time at the end, logs too. Writers are killed and stopped as above. Each service
is killed once and stopped once while it holds the lock (that which merges logs is killed as it
begins), one reader is killed and one stopped. *killed* and *paused* are those of writers +
services + readers, in brackets the ones that held the lock.

What holds for the storms above must hold here too; a commit may be in the archive. After one
`pyhudi clean --failed-writes` no data file that no commit ever named, marker or heartbeat may be
left, and after one round of `pyhudi services` no open instant and no lease. It is a problem if a
writer fails for a reason that names a service, if a service fails otherwise than by
what it was struck with (*services that failed*), if a reader misses a file of its state, or if it
reads other rows from it the second time. Two of the writers race for new keys.

When all have been struck, the storm goes on in parts in which services run or rest, in the order
rest, run, run, rest; *services rest* is the time between two turns of a service then. *commits/s*
are medians over the parts, *share* is the second of the first, *of the slowest writer* the same by
all commits of the one writer that services cost most: a few dozen on local disk, fewer elsewhere,
so it varies by a third. Each writer rests about three seconds between two upserts
(`--span 30 --spans 16 --rest 20 --pace 6`), with the slower locks of Hive and S3 six seconds
(`--span 40 --spans 16 --rest 30 --pace 12`), so that two cores keep up with eight writers, and the
shares of single writers say something. The machine has two cores, for these processes and for
other work that comes and goes: the shares tell of both. A clean spares files for
8 s here after they are replaced, not for 60 s, and a query is a long one after 1 s, not 5 s.
"""


def summary(report: Report) -> tuple[str, ...]:
    """A line of the table, in the order of ``COLUMNS``."""
    told, ran, reads, figures = report.told, report.services, report.reads, report.figures
    others = Counter(told.failed.values())
    del others["WriterFenced"]
    without, beside, share = ratio(report.spans)

    def befell(what: str) -> str:
        kinds = [report.struck.get(kind, Counter()) for kind in ("writers", "services", "readers")]
        with_lock = sum(found[what + " with the lock"] for found in kinds)
        each = " + ".join(str(found[what] + found[what + " with the lock"]) for found in kinds)
        return f"{each} ({with_lock})"

    found = (
        report.lock,
        report.storage,
        str(report.season.scale),
        figures["acknowledged"],
        told.counts["retry"],
        figures["retries by services"],
        befell("killed"),
        befell("paused"),
        told.counts["WriterFenced"],
        ", ".join(f"{n} {kind}" for kind, n in sorted(others.items())) or 0,
        figures["silent"],
        ran["clean done"],
        figures["archived"],
        figures["CLUSTER"],
        figures["COMPACT"],
        figures["LOG_COMPACT"],
        ran["failed"],
        reads["look"],
        reads["with files that were replaced"],
        reads["lost"],
        report.season.rest,
        f"{without:.2f}",
        f"{beside:.2f}",
        f"{share:.2f}",
        f"{least(report.spans):.2f}",
        f"{report.seconds:.0f}",
        len(report.problems) or "none",
    )
    return tuple(map(str, found))


def with_ours(published: str, reports: Iterable[Report]) -> str:
    """The page with a line for each of these storms; lines of others stay."""
    part = part_of(published, OURS)
    lines = lines_of(part, NAMED, (summary(report) for report in reports))
    return with_part(published, TEXT, [COLUMNS, *lines.values()])
