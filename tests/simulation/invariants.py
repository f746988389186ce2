"""The published table: which invariant holds in which configuration, made by running them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.simulation.checkers import CHECKERS, LOG_CHECKERS, SHARED_CHECKERS, STREAM_CHECKERS
from tests.simulation.explore import Explored
from tests.simulation.guards import Case
from tests.simulation.residuals import RESIDUALS
from tests.simulation.rows import Row

PAGE = Path(__file__).parents[2] / "docs" / "invariants.md"
INVARIANTS = tuple(checker.__name__.replace("_", " ") for checker in CHECKERS)
LOG_INVARIANTS = tuple(checker.__name__.replace("_", " ") for checker in LOG_CHECKERS)
SHARED_INVARIANTS = tuple(c.__name__.replace("_", " ") for c in SHARED_CHECKERS)
STREAM_INVARIANTS = tuple(checker.__name__.replace("_", " ") for checker in STREAM_CHECKERS)

HEAD = """\
<!-- Made by `make simulate`, which runs what the tables say. -->

# What holds, and where

A scheduler runs the transaction code with different orders of its calls to storage, lock and
clock: all orders of small worlds within a bound, orders of larger worlds by seed. There are
crashes at any point, lost requests and replies, requests that land late, stops longer than the
lease, clocks that differ, equal instant times and locks that expire (`tests/simulation`). UPDATEs
compute their rows from a state that the planner no longer has at their commit: it was restarted,
or other queries pushed the pin out. An application with two tables writes both at the same time,
in two threads that share its caches and its marker service.

`make simulate` made this page: it runs as many seeds as the tables say, and all schedules within
the bounds. `make test` uses most schedules where it must find something: it switches off each
guard and finds each *broken* again. Where it must find nothing, it runs 40 seeds of each
configuration, 30 with each service of Apache Hudi, 25 with those of pyhudi, 20 of each
configuration of streams and of logs, 8 of each of writers without coordination, 40 with each guard
against Apache Hudi's on, 200 for each gap that no guard covers, and the schedules within three of
the bounds.

Six things must hold in each run:
"""
SERVICES = """\
## Beside Apache Hudi's services

The same writers run, and readers that list the timeline and then the files. Beside them programs
change the timeline and the files like Apache Hudi 1.2.0's services, in the same order and under
the same lock (`tests/simulation/hudi_services.py`, `hudi_archive.py`, `hudi_compact.py`). They
also crash and lose requests and replies; a service that died is run again. If a clean has deleted
the files of a reader or writer, it ends with an error and without rows.

A planned compaction, or one that died, is on the timeline of a table that pyhudi writes: no writer
rolls it back, and its files do not count. A compaction completes only on a merge-on-read table;
there we have only readers here; writers of logs come below. A clustering is planned under
the lock, and other services run beside it; in its rows nothing crashes and nothing is lost.
""".rstrip().split("\n")
LOGS = """\
## Logs of merge-on-read tables

Writers append logs to the file groups of merge-on-read tables, beside each other, beside pyhudi's
compactions and beside those that Apache Hudi plans or runs. Which group gets a log or a base file,
the markers, the conflicts, rollbacks, slices, plans, take-overs and the commits are the product's
code; only rows are merged by the simulation (`tests/simulation/appends.py`, `own_compaction.py`).
Apache Hudi's compaction of version 6 has logs of running writes in its plan, as in the original;
Hudi's writer that is alone compares itself with nobody. At the end the plans that are left are run.
Log compactions wait until no write runs, so they look for logs again and again.
By the six invariants no row is there twice, and none of a failed write shows. Two more must hold:
""".rstrip().split("\n")
SHARED = """\
## Writers without coordination

Such writers add logs of whole rows to buckets that all of them share, alone, beside compactions,
and beside writers with coordination, statements, and deletions of a whole partition
(`tests/simulation/shared_buckets.py`). The bucket's id, the judgement and the order are the
product's code; the rule that says which row stays is stated once more by the checker
(`tests/simulation/checkers/same_rows.py`). Rows that others have overwritten are not lost here, so
two invariants more stand in place of *nothing committed is lost* and *every read is serial*. A
delete adds no log to a bucket that has no file group when it begins, so it deletes no row that
another writer puts there meanwhile:
""".rstrip().split("\n")
SHARED_TOLD = """\
Each guard of these writers, and what comes of it if it is switched off:
""".rstrip().split("\n")
OWN = """\
## Beside pyhudi's own services

pyhudi's clean, archive and clustering run as they are, beside the same writers. They crash, stop
longer than the lease and lose requests and replies; one that died is run again.
""".rstrip().split("\n")
STREAMS = """\
## Streams

Drivers of streams write micro-batches beside each other and a batch writer. They play Spark's part:
a batch's offsets are logged before it and its end after it, and a driver that starts repeats the
batch whose end is missing (`tests/simulation/streams.py`). The epoch, its judgement, the retries
and the commit are the product's code. Each driver is started again at some time, perhaps while the
old one still runs. They crash at any write, stop longer than the lease, and lose requests and
replies; a driver that came to no end is started once more.

Apache Hudi's sink takes a stream over and gives it back, or writes another one beside ours
(`tests/simulation/hudi_sink.py`). It looks at no number under the lock, so one of its drivers runs
after the other. Functions of `foreachBatch` write twice in a batch, make a statement again that
failed, or leave one out. Restores undo batches of streams with one driver at a time: a forgotten
one may write an undone batch again, and then nothing tells that those after it are missing. Five
more things must hold:
""".rstrip().split("\n")
NEEDLESS = """\
Nothing of this breaks without the judgements before the write and after the begin, which save work
that the one under the lock would undo; without the marks in the commits of batch writers, which
save a look into the archive; without the second comparison of marks at a repeated put, which is for
writers that take no lock; and without the settling before an epoch is tried again, since the last
put has been waited for by then: it spares the next try a conflict with its own dead write.

Each guard of streams and what comes of it if it is switched off:
""".rstrip().split("\n")
UNPROVEN = """\
Nothing of this breaks without the comparison of a compaction with base files that were written
beside it: pyhudi writes none in a group that has logs, and only Apache Hudi might. Nor was anything
found without the look for logs that a clean has deleted, and without the rule by which a clean
spares the logs of writes that run; these two are proven by their mutants alone. So is the rule that
a late log of a group which a log compaction left out does not count: for that a worker must stand
still until others have run its plan, and that group must have changed meanwhile.

Each guard of logs and compactions, and what comes of it if it is switched off:
""".rstrip().split("\n")
GUARDED = """\
Each guard of these services, what comes of it if it is switched off, and who runs then. Below, each
run is told; the mutant is in [mutants.md](mutants.md).
""".rstrip().split("\n")
AFTER_OWN = "## What no guard covers"
MEANINGS = {
    "nothing live is deleted": "every file that a completed commit names is there",
    "a key has one home": "no reader finds a key in two file groups",
    "nothing committed is lost": "rows of an acknowledged commit are there, unless a later "
    "restore or rollback undid them",
    "what was undone stays undone": "no row of a commit that a restore or rollback undid returns",
    "every read is serial": "there is one order of the commits, and each read shows a prefix of it",
    "a log is in its slice": "the newest one at its commit; and a compaction merges all logs of "
    "its slice that had completed, and no other",
    "the order of names gives the same rows": "a reader that knows no log compaction, and merges "
    "the logs of a slice by their names, sees in the end what we see",
    "every order gives the same rows": "each read shows the rows that the rule names for the "
    "commits of that moment: by event time the highest ordering value, otherwise the latest log; "
    "no acknowledged commit is missing, and none is counted that is not visible",
    "no race is lost": "by event time none of these writers fails or begins anew, as long as all "
    "are such writers",
    "an epoch is committed once": "one commit has it, however many drivers write it",
    "the rows of a batch are there once": "none is there twice in any read; none is lost once the "
    "batch has ended",
    "marks never go back": "each commit that has marks has those of all streams, and no older ones",
    "no undone batch is passed over": "a stream whose batch a restore has undone writes it again, "
    "or commits no later one; Apache Hudi's sink takes part in no restore",
    "no stream is stopped in vain": "a driver that is told of undone batches has some",
    "every instant settles": "after the last writer one settling leaves nothing incomplete: no "
    "pending instant, file, marker or heartbeat",
}


def cells(row: Row) -> list[str]:
    """What the table says of a configuration, by invariant."""
    return ["broken" if name in row.broken else "holds" for name in INVARIANTS]


def page(
    searched: Sequence[tuple[Row, Explored]],
    exhausted: Sequence[tuple[str, Explored]],
    guards: Sequence[tuple[Case, Explored, str]],
    beside: Sequence[tuple[Row, Explored]] = (),
    own: Sequence[tuple[Row, Explored]] = (),
    own_cases: Sequence[Case] = (),
    streams: Sequence[str] = (),
    logs: Sequence[str] = (),
) -> str:
    """The page as Markdown.

    ``beside`` are the runs beside Apache Hudi's services, ``own`` those beside pyhudi's, ``logs``
    and ``streams`` are the parts on these.
    """
    parts = [HEAD, *(f"* **{name}**: {MEANINGS[name]};" for name in INVARIANTS), ""]
    parts += _table(("configuration", *INVARIANTS, "schedules"), [_line(*one) for one in searched])
    parts += ["", "*holds*: never found broken in so many runs by seed. A search for what cannot"]
    parts += ["hold ends where all of it is found:", *_reasons([row for row, _ in searched])]
    parts += ["", *SERVICES, ""]
    parts += _table(("beside", *INVARIANTS, "schedules"), [_line(*one) for one in beside])
    parts += _reasons([row for row, _ in beside])
    parts += ["", *logs, *streams, *own_part(own, own_cases)]
    parts += ["", AFTER_OWN, ""]
    parts += ["Found wherever it may happen, and nothing else is:", ""]
    parts += [f"* {r.name}: then it does not hold that {r.breaks}." for r in RESIDUALS]
    parts += ["", "## Every schedule within a bound", ""]
    parts += ["Two writers that change two keys of one file group, all guards on:", ""]
    parts += _table(
        ("at most", "schedules", "to their end", "states", "steps", "wrong"),
        [
            (n, f"{e.schedules:,}", f"{e.whole:,}", f"{e.states:,}", f"{e.steps:,}", "none")
            for n, e in exhausted
        ],
    )
    parts += ["", "Schedules that end early come to a state that has been explored before.", ""]
    parts += ["## Each guard switched off", ""]
    for case, explored, told in guards:
        parts += guard_part(case, explored, told)
    return "\n".join(parts).rstrip() + "\n"


def with_own_part(
    known: str,
    own: Sequence[tuple[Row, Explored]],
    guards: Sequence[tuple[Case, Explored, str]],
) -> str:
    """The page ``known`` with what was found anew of pyhudi's own services and their guards.

    The guards of these services come last on the page.
    """
    cases = [case for case, _, _ in guards]
    before, _, rest = known.partition(OWN[0])
    middle, _, _ = rest[rest.index(AFTER_OWN) :].partition(f"### {cases[0].guard}\n")
    lines = [*own_part(own, cases), ""]
    told = [line for one in guards for line in guard_part(*one)]
    return before + "\n".join(lines) + "\n" + middle + "\n".join(told).rstrip() + "\n"


def with_log_part(known: str, lines: Sequence[str]) -> str:
    """The page ``known`` with a new part on logs, which stands before that on streams."""
    before, _, rest = known.partition(STREAMS[0])
    before = before.partition(LOGS[0])[0]
    return "\n".join([before.rstrip("\n"), "", *lines]) + "\n" + STREAMS[0] + rest


def log_part(
    searched: Sequence[tuple[Row, Explored]], guards: Sequence[tuple[Case, Explored, str]]
) -> list[str]:
    """The lines of the page on logs, compactions and their guards."""
    parts = [*LOGS, "", *(f"* **{n}**: {MEANINGS[n]};" for n in LOG_INVARIANTS), ""]
    head = ("configuration", "the six above", *LOG_INVARIANTS, "schedules")
    parts += _table(head, [log_line(row, explored) for row, explored in searched])
    parts += ["", *UNPROVEN, ""]
    head = ("guard", "without it", "programs", "mutant")
    parts += [*_table(head, [guard_line(case) for case, _, _ in guards]), ""]
    return parts + [line for one in guards for line in guard_part(*one)]


def with_shared_part(known: str, lines: Sequence[str]) -> str:
    """The page ``known`` with a new part on writers without coordination, before the streams."""
    before, _, rest = known.partition(STREAMS[0])
    before = before.partition(SHARED[0])[0]
    return "\n".join([before.rstrip("\n"), "", *lines]) + "\n" + STREAMS[0] + rest


def shared_part(
    searched: Sequence[tuple[Row, Explored]], guards: Sequence[tuple[Case, Explored, str]]
) -> list[str]:
    """The lines of the page on writers without coordination and their guards."""
    new = SHARED_INVARIANTS[-2:]
    parts = [*SHARED, "", *(f"* **{n}**: {MEANINGS[n]};" for n in new), ""]
    head = ("configuration", *SHARED_INVARIANTS, "schedules")
    parts += _table(head, [shared_line(row, explored) for row, explored in searched])
    parts += ["", *SHARED_TOLD, ""]
    head = ("guard", "without it", "programs", "mutant")
    parts += [*_table(head, [guard_line(case) for case, _, _ in guards]), ""]
    return parts + [line for one in guards for line in guard_part(*one)]


def shared_line(row: Row, explored: Explored) -> tuple[str, ...]:
    """A configuration of such writers: nothing may be broken there."""
    assert not row.broken
    return (row.name, *["holds"] * len(SHARED_INVARIANTS), f"{explored.schedules:,}")


def log_line(row: Row, explored: Explored) -> tuple[str, ...]:
    """A configuration of a merge-on-read table: nothing may be broken there."""
    assert not row.broken
    return (row.name, *["holds"] * (1 + len(LOG_INVARIANTS)), f"{explored.schedules:,}")


def with_stream_part(known: str, lines: Sequence[str]) -> str:
    """The page ``known`` with a new part on streams, which stands before that on our services."""
    before, _, rest = known.partition(OWN[0])
    before = before.partition(STREAMS[0])[0]
    return "\n".join([before.rstrip("\n"), "", *lines]) + "\n" + OWN[0] + rest


def stream_part(
    searched: Sequence[tuple[Row, Explored]], guards: Sequence[tuple[Case, Explored, str]]
) -> list[str]:
    """The lines of the page on streams and their guards."""
    parts = [*STREAMS, "", *(f"* **{n}**: {MEANINGS[n]};" for n in STREAM_INVARIANTS), ""]
    head = ("configuration", "the six above", *STREAM_INVARIANTS, "schedules")
    parts += _table(head, [stream_line(row, explored) for row, explored in searched])
    parts += ["", *NEEDLESS, ""]
    head = ("guard", "without it", "programs", "mutant")
    parts += [*_table(head, [guard_line(case) for case, _, _ in guards]), ""]
    return parts + [line for one in guards for line in guard_part(*one)]


def stream_line(row: Row, explored: Explored) -> tuple[str, ...]:
    """A configuration in which streams write: nothing may be broken there."""
    assert not row.broken
    return (row.name, *["holds"] * (1 + len(STREAM_INVARIANTS)), f"{explored.schedules:,}")


def own_part(own: Sequence[tuple[Row, Explored]], cases: Sequence[Case]) -> list[str]:
    """The lines of the page on pyhudi's own services and their guards."""
    parts = [*OWN, ""]
    parts += _table(("beside", *INVARIANTS, "schedules"), [_line(*one) for one in own])
    parts += [*_reasons([row for row, _ in own]), "", *GUARDED, ""]
    head = ("guard", "without it", "programs", "mutant")
    return parts + _table(head, [guard_line(case) for case in cases])


def guard_line(case: Case) -> tuple[str, ...]:
    """A guard around pyhudi's own services: what it stops, its scenario and its mutant."""
    programs = case.scenario.programs
    who = ", ".join(f"{type(p).__name__} {name}" for name, p in programs.items())
    return (case.guard, case.stops, who, case.mutant)


def guard_part(case: Case, explored: Explored, told: str) -> list[str]:
    """The lines of the page on a guard that was switched off."""
    found = f"Found after {explored.schedules} schedules:"
    return [f"### {case.guard}", "", found, "", "```text", told, "```", ""]


def _reasons(rows: Sequence[Row]) -> list[str]:
    told = [f"* {row.name}: {row.because}." for row in rows if row.because]
    return ["", *told] if told else []


def _line(row: Row, explored: Explored) -> tuple[str, ...]:
    return (row.name, *cells(row), f"{explored.schedules:,}")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
