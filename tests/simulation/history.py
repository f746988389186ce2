"""A run told in at most 25 lines: who did what, and what came of it.

Instants are t1, t2, ... in the order of their times, file groups g1, g2, ... as they appear. What
a reader of the history needs least is left out first, until it is short enough.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pyhudi.format.instants import Instant, InstantTime, State
from pyhudi.locks.filesystem import LOCK_PATH
from pyhudi.locks.open import GROUPS_PATH
from tests.simulation.explore import Finding, shrink
from tests.simulation.logs import is_data, named_log
from tests.simulation.programs import outcome_of
from tests.simulation.residuals import timeline_entry
from tests.simulation.scheduler import Event, FaultKind, Kind
from tests.simulation.seams import SERVICES
from tests.simulation.streams import CHECKPOINTS, ENDS, keys_by_epoch
from tests.simulation.world import SETTLER, Run

MOST_LINES = 25
COLUMNS = 96
FOLDERS = (".hoodie", ".hoodie/timeline")

_TIME = re.compile(r"(?<!\d)\d{17}(?!\d)")
_DATA = re.compile(r"([^_/]+)_[^_/]+_(\d{17})\.parquet$")

#: how needful a phrase is: 1 always told, 3 told where there is room
ALWAYS, USEFUL, ROOM = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Phrase:
    who: str
    text: str
    need: int


class Names:
    """Short names for instants and file groups."""

    def __init__(self, run: Run) -> None:
        texts = [path for event in run.events for path in event.op.paths]
        texts += [f.path for f in run.files.walk("")]
        times = sorted({t for text in texts for t in _TIME.findall(text)})
        self._times = {time: f"t{n}" for n, time in enumerate(times, 1)}
        epochs = keys_by_epoch(run.scenario.programs)
        self._epochs = {t: f.writer for t, f in run.truth.published.items() if f.writer in epochs}
        self._groups: dict[str, str] = {}
        self._files: dict[str, list[str]] = {}

    def time(self, time: str) -> str:
        return self._times.get(time, time)

    def epoch(self, time: InstantTime) -> str:
        """The epoch that a commit has; empty for none."""
        return self._epochs.get(time, "")

    def slice(self, path: str) -> str:
        found = _DATA.search(path)
        log = named_log(path)
        if log is not None:
            group = self._groups.setdefault(log.file_id, f"g{len(self._groups) + 1}")
            return f"log {group}@{self.time(log.instant)}.{log.version}"
        if found is None:
            return path
        group = self._groups.setdefault(found[1], f"g{len(self._groups) + 1}")
        name = f"{group}@{self.time(found[2])}"
        alike = self._files.setdefault(name, [])
        file = path.rsplit("/", 1)[-1]
        if file not in alike:
            alike.append(file)
        # Two files of one slice differ in their write tokens.
        return name + "'" * alike.index(file)

    def anywhere(self, text: str) -> str:
        """The text with short names put in."""
        text = re.sub(r"\S+\.parquet", lambda m: self.slice(m[0]), text)
        text = re.sub(r"\S+\.log\.\S+", lambda m: self.slice(m[0]), text)
        return _TIME.sub(lambda m: self.time(m[0]), text)


def history(finding: Finding, keep: str = "") -> str:
    """The run of a finding and what was wrong with it; ``keep`` is the invariant to name."""
    run = finding.run
    names = Names(run)
    phrases = [p for event in run.events if (p := _phrase(event, names)) is not None]
    end = [_ending(run), f"=> {names.anywhere(_first(finding, keep))}"]
    for need in (ROOM, USEFUL, ALWAYS):
        lines = _lines([p for p in phrases if p.need <= need])
        if len(lines) + len(end) <= MOST_LINES:
            break
    else:
        kept = MOST_LINES - len(end) - 1
        lines = [*lines[: kept // 2], "...", *lines[len(lines) - kept + kept // 2 :]]
    return "\n".join([*lines, *end])


def report(finding: Finding, keep: str = "") -> str:
    """The history of the shortest schedule that does the same, and that schedule."""
    short = shrink(finding, keep)
    return f"{history(short, keep)}\nrun again by explore.judge(scenario, {short.schedule!r})"


def _first(finding: Finding, keep: str) -> str:
    invariant, found = next((f for f in finding.found if f[0] == keep), finding.found[0])
    return f"broken: {invariant}: {found}"


def _ending(run: Run) -> str:
    ends = [f"{who} {outcome_of(error)}" for who, error in run.outcomes.items() if who != SETTLER]
    rows = run.observations[-1].seen
    shown = ", ".join(f"{k}={' and '.join('+'.join(v) for v in vs)}" for k, vs in rows.items())
    return f"in the end: {', '.join(ends)}; rows {shown or 'cannot be read'}"


def _lines(phrases: list[Phrase]) -> list[str]:
    """One line for what one actor does in a row, more where it is long."""
    lines: list[tuple[str, str]] = []
    for phrase in phrases:
        if lines and lines[-1][0] == phrase.who:
            if lines[-1][1].endswith(phrase.text):
                continue
            joined = f"{lines[-1][1]}; {phrase.text}"
            if len(joined) + 12 <= COLUMNS:
                lines[-1] = (phrase.who, joined)
                continue
        lines.append((phrase.who, phrase.text))
    return [f"{who:10.10s}  {text}" for who, text in lines]


def _phrase(event: Event, names: Names) -> Phrase | None:
    text, need = _deed(event, names)
    who = event.who.replace("'s heartbeat", " (beat)").replace("'s renewals", " (locks)")
    if event.fault is not None:
        what = text or f"{event.op.what} {names.anywhere(' '.join(event.op.paths))}".strip()
        if event.fault.kind is FaultKind.PAUSE:
            return Phrase(who, f"STOPS for {event.fault.seconds:g} s before it {what}", ALWAYS)
        return Phrase(who, f"{event.fault.kind.value.upper()}: {what}", ALWAYS)
    if not text:
        return None
    if event.result in ("is cut off", "the name is taken"):
        return Phrase(who, f"{text} ({event.result})", need)
    return Phrase(who, text, need)


def _deed(event: Event, names: Names) -> tuple[str, int]:
    """What a step does, in words, and how needful they are; empty for what tells nothing."""
    op = event.op
    path = op.paths[0] if op.paths else ""
    if op.paths in SERVICES:
        return op.what, USEFUL
    if path == LOCK_PATH:
        return _lock(event), USEFUL
    if path.startswith(f"{GROUPS_PATH}/"):
        return f"{_lock(event)} of a file group", USEFUL
    if op.kind is Kind.READ:
        return _look(event, path, names)
    if op.kind is not Kind.WRITE:
        return "", ROOM
    if op.what.endswith("delete"):
        gone = [names.slice(p) for p in op.paths if is_data(p)]
        gone += [names.anywhere(p.rsplit("/", 1)[-1]) for p in op.paths if timeline_entry(p)]
        return (f"deletes {', '.join(gone)}", ALWAYS) if gone else ("", ROOM)
    if "/history/" in path or ".commits_.archive" in path:
        return "writes the archive", ROOM
    if is_data(path):
        return f"writes {names.slice(path)}", ALWAYS
    if path.startswith(CHECKPOINTS):
        log, number = path.split("/")[-2:]
        return f"logs that batch {number} {'ends' if log == ENDS else 'begins'}", ALWAYS
    instant = timeline_entry(path)
    if instant is not None:
        return _timeline(instant, op.what.startswith("late"), names)
    return "", ROOM


def _timeline(instant: Instant, late: bool, names: Names) -> tuple[str, int]:
    time, action = names.time(instant.time), instant.action.value
    what = f"{action} {time}" if action != "commit" else time
    if instant.state is State.REQUESTED:
        return f"requests {what}", ALWAYS
    if instant.state is State.INFLIGHT:
        return f"marks {what} inflight", ROOM
    verb = "the late put lands and publishes" if late else "PUBLISHES"
    if epoch := names.epoch(instant.time):
        what = f"epoch {epoch} as {what}"
    return f"{verb} {what} (completed at {names.time(instant.completion_time or '')})", ALWAYS


def _lock(event: Event) -> str:
    what = event.op.what
    if what == "put_if_absent":
        return "takes the lock"
    if what == "replace":
        return "rewrites the lock"
    return {"read": "looks at the lock", "delete": "releases the lock"}.get(what, what)


def _look(event: Event, path: str, names: Names) -> tuple[str, int]:
    if path in FOLDERS and isinstance(event.result, list):
        found = [timeline_entry(f.path) for f in event.result]
        done = sorted({i.time for i in found if i and i.state is State.COMPLETED})
        open_ = sorted({i.time for i in found if i} - set(done))
        text = f"loads the timeline: done {' '.join(map(names.time, done)) or 'nothing'}"
        return text + (f", pending {' '.join(map(names.time, open_))}" if open_ else ""), USEFUL
    data = path.endswith(".parquet") and not path.startswith(".hoodie/")
    if data and isinstance(event.result, bytes):
        rows = json.loads(event.result)
        shown = ", ".join(f"{k}={'+'.join(v)}" for k, v in rows.items())
        return f"reads {names.slice(path)} ({shown})", USEFUL
    return "", ROOM
