"""Random histories of a table, and what each state of its past must give."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from pyhudi.format.archive import ArchivedInstant
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.table_config import TableConfig, parse_table_config
from pyhudi.timeline.strays import Archive
from pyhudi.timeline.view import FileSystemView, list_view
from tests.timeline.bare import Bare, after, t

#: group -> time of its base file, if it has one, and times of its logs
Slices = Mapping[str, tuple[int | None, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Told(Archive):
    """An archive that tells of its commits when they were, and no more."""

    times: Collection[InstantTime] = ()

    def commits(self) -> Mapping[InstantTime, ArchivedInstant]:
        found = {time: Instant(time, Action.COMMIT, State.COMPLETED, time) for time in self.times}
        return {time: ArchivedInstant(each, None, None, "") for time, each in found.items()}


def archive_of(bare: Bare, times: Collection[InstantTime]) -> Told:
    """An archive with these commits."""
    version = 9 if bare.layout == 2 else 6
    text = f"hoodie.table.name=t\nhoodie.table.version={version}\n"
    config: TableConfig = parse_table_config(text.encode(), "memory")
    return Told(bare.storage, config, times)


@dataclass(slots=True)
class Commit:
    """A commit that has completed; ``state`` is active, archived or undone."""

    time: int
    action: Action
    files: dict[str, WriteStat]
    replaced: frozenset[str] = frozenset()
    state: str = "active"
    saved: bool = False


@dataclass(slots=True)
class History:
    """One table, its commits one after the other, and its services between them.

    ``logs``: updates go to logs. ``restoring`` has the commits that a restore is about to undo,
    each twice: first its completed state goes, then its files.
    """

    lots: Random
    bare: Bare
    logs: bool
    clock: int = 100
    commits: list[Commit] = field(default_factory=list)
    restoring: list[Commit] = field(default_factory=list)
    restore: int = 0

    def tick(self) -> int:
        """A new time."""
        self.clock += 10
        return self.clock

    def state(self, state: str) -> list[Commit]:
        """The commits in this state, oldest first."""
        return [commit for commit in self.commits if commit.state == state]

    def slices(self, as_of: int | None = None, without: Commit | None = None) -> Slices:
        """The live slices at this time."""
        found: dict[str, tuple[int | None, tuple[int, ...]]] = {}
        gone: set[str] = set()
        for commit in self.commits:
            late = as_of is not None and commit.time > as_of
            if commit.state == "undone" or commit is without or late:
                continue
            for group, stat in commit.files.items():
                base, logs = found.get(group, (None, ()))
                log = ".log." in stat.path
                found[group] = (base, (*logs, commit.time)) if log else (commit.time, ())
            gone |= commit.replaced
        return {group: each for group, each in found.items() if group not in gone}

    def paths(self, as_of: int | None = None, without: Commit | None = None) -> set[str]:
        """The files of the live slices at this time."""
        files = {
            (c.time, group): stat.path for c in self.commits for group, stat in c.files.items()
        }
        return {
            files[time, group]
            for group, (base, logs) in self.slices(as_of, without).items()
            for time in (*([] if base is None else [base]), *logs)
        }

    def exist(self, paths: Iterable[str]) -> bool:
        """Whether all these files do."""
        return all(map(self.bare.storage.exists, paths))

    def view(self) -> FileSystemView:
        """A new listing."""
        archived = [t(commit.time) for commit in self.state("archived")]
        return list_view(self.bare.storage, self.bare.timeline(), archive_of(self.bare, archived))

    # what may happen

    def step(self) -> None:
        """Something happens; while a restore runs, its next step."""
        if self.restoring:
            self._undo_one()
            return
        saved = any(commit.saved for commit in self.commits)
        events = [self.write] * 5 + [self.cluster, self.clean_versions, self.archive] * 2
        events += [self.clean_commits, self.archive, self.roll_back]
        events += [self.begin_restore] * 2 + [self.free] if saved else [self.save] * 2
        events += [self.compact] * 3 * self.logs
        self.lots.choice(events)()

    def write(self) -> None:
        """Some groups, and sometimes a new one."""
        groups = set(self.lots.sample(["g1", "g2", "g3"], self.lots.choice([1, 1, 2])))
        time, now = self.tick(), self.slices()
        groups |= {f"n{time}"} if self.lots.random() < 0.3 else set()
        gone = {group for commit in self.commits for group in commit.replaced}
        files = {}
        for group in sorted(groups - gone):
            if group in now and self.logs:
                path = f"p/{self.bare.log(group, time)}"
                stat = WriteStat(FileId(group), path, "p", num_updates=1, file_size_bytes=5)
            else:
                stat = self.bare.file(group, time)
                stat = after(stat, now[group][0] or 0) if group in now else stat
            files[group] = stat
        self._commit(Commit(time, Action.DELTACOMMIT if self.logs else Action.COMMIT, files))

    def compact(self) -> None:
        """Some slices that have logs get a new base file."""
        now, time = self.slices(), self.tick()
        files = {}
        for group in self._some(group for group, (_, logs) in now.items() if logs):
            made, base = self.bare.file(group, time), t(now[group][0] or 0)
            files[group] = WriteStat(
                FileId(group), made.path, "p", base, num_writes=3, file_size_bytes=10,
                prev_base_file=f"{group}_0-0-0_{base}.parquet",
            )  # fmt: skip
        if files:
            self._commit(Commit(time, Action.COMMIT, files))

    def cluster(self) -> None:
        """A new group replaces some others."""
        replaced, time = self._some(self.slices()), self.tick()
        made = {f"c{time}": self.bare.file(f"c{time}", time)}
        self._commit(Commit(time, Action.REPLACECOMMIT, made, frozenset(replaced)))

    def clean_versions(self, keep: int = 0) -> None:
        """All but the newest slices of each group go, and groups that were replaced."""
        keep, now = keep or self.lots.choice([1, 1, 2]), self.slices()
        groups: dict[str, list[str]] = {}
        for commit in self.commits:
            for group, stat in commit.files.items():
                if commit.state != "undone" and self.bare.storage.exists(stat.path):
                    groups.setdefault(group, []).append(stat.path)
        gone: list[str] = []
        for group, paths in groups.items():
            bases = [at for at, path in enumerate(paths) if ".log." not in path]
            kept = bases[-keep] if len(bases) >= keep else 0
            gone += paths[:kept] if group in now else paths
        self._clean(gone)

    def clean_commits(self) -> None:
        """What none of the newest commits needs goes."""
        active = self.state("active")[-self.lots.randint(1, 4) :]
        needed = {path for commit in active for path in self.paths(commit.time)}
        files = (stat.path for c in self.commits for stat in c.files.values())
        self._clean(path for path in files if path not in needed)

    def archive(self) -> None:
        """The oldest commits go, up to a savepoint, or a replacement whose groups are there."""
        for commit in self.state("active")[:-2][: self.lots.randint(1, 3)]:
            files = (c.files[g].path for g in commit.replaced for c in self.commits if g in c.files)
            if commit.saved or any(map(self.bare.storage.exists, files)):
                return
            self.bare.undo(commit.time)
            commit.state = "archived"

    def save(self) -> None:
        """A savepoint of a commit, if all of its state is there."""
        commit = self.lots.choice(self.state("active"))
        if self.exist(self.paths(commit.time)):
            self.bare.put(Action.SAVEPOINT, State.COMPLETED, commit.time, self.tick())
            commit.saved = True

    def free(self) -> None:
        """A savepoint is deleted, and a clean takes what it alone has kept."""
        commit = self.lots.choice([each for each in self.commits if each.saved])
        commit.saved = False
        files = self.bare.storage.list(self.bare.folder)
        mine = [f for f in files if f.name.startswith(t(commit.time))]
        self.bare.storage.delete([f.path for f in mine if "savepoint" in f.name])
        self.clean_versions(keep=1)

    def roll_back(self) -> None:
        """The newest commit is undone, if all that was before is there."""
        *others, last = self.state("active")
        if others and not last.saved and self.exist(self.paths(without=last)):
            self.bare.undo(last.time)
            self.bare.storage.delete([stat.path for stat in last.files.values()])
            last.state = "undone"
            self.bare.put(Action.ROLLBACK, State.COMPLETED, self.tick())

    def begin_restore(self) -> None:
        """The table is to go back to its savepoint."""
        (saved,) = (commit for commit in self.commits if commit.saved)
        later = [commit for commit in self.state("active") if commit.time > saved.time]
        if later:
            self.restoring = [commit for commit in later for _ in range(2)]
            self.restore = self.tick()
            self.bare.put(Action.RESTORE, State.INFLIGHT, self.restore)

    def _undo_one(self) -> None:
        commit = self.restoring.pop()
        self.bare.undo(commit.time)
        if commit.state == "active":
            self.bare.put(commit.action, State.INFLIGHT, commit.time)
            commit.state = "undone"
        else:
            self.bare.storage.delete([stat.path for stat in commit.files.values()])
        if not self.restoring:
            self.bare.undo(self.restore)
            self.bare.put(Action.RESTORE, State.COMPLETED, self.restore)

    def _some(self, groups: Iterable[str]) -> list[str]:
        there = sorted(groups)
        return self.lots.sample(there, min(len(there), self.lots.choice([1, 1, 2])))

    def _clean(self, paths: Iterable[str]) -> None:
        saved = {p for each in self.commits if each.saved for p in self.paths(each.time)}
        self.bare.storage.delete([path for path in paths if path not in saved])
        self.bare.put(Action.CLEAN, State.COMPLETED, self.tick())

    def _commit(self, commit: Commit) -> None:
        replaced = {"p": tuple(map(FileId, sorted(commit.replaced)))} if commit.replaced else None
        compacted = self.logs and commit.action is Action.COMMIT
        self.bare.put(
            commit.action, State.COMPLETED, commit.time, self.tick(), tuple(commit.files.values()),
            replaced, compacted=compacted,
        )  # fmt: skip
        self.commits.append(commit)
