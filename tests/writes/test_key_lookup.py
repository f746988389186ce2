"""Lookups through the state, beside all that can happen to a table, equal lookups in its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.index.key_state import GroupChange, KeyState
from pyhudi.index.stateful_lookup import Answer, KeyStates, StatefulLookup, Wanted
from pyhudi.rows.hashing import key_hashes
from pyhudi.rows.spec import DELETE, GroupPlan
from pyhudi.slices.files import BaseFile
from pyhudi.writes.key_lookup import PlacedRows, changes_of
from pyhudi.writes.keys.expressions import RECORD_KEY
from pyhudi.writes.placement.assign import Assignment

ROOT, PLENTY = "memory:/t", 1 << 20
#: four bits of the hash count
NARROW = 44
KEYS = [f"k{n}" for n in range(24)]
PARTITIONS = ["p", "q"]
HALF = InstantTime("20240101000000000")

keys = st.sampled_from(KEYS)
partitions = st.sampled_from(PARTITIONS)
#: rows of one key stay in their order, so the last one wins
batches = st.lists(st.tuples(partitions, keys, st.sampled_from([False, False, True])), max_size=12)


@dataclass(frozen=True)
class File:
    """A base file: its rows are keys."""

    partition: str
    group: str
    path: str
    keys: tuple[str, ...]


View = dict[str, File]
"""The files of a state of the table, by file group."""


def as_base_file(file: File) -> BaseFile:
    name = file.path.split("/")[1]
    return BaseFile(file.partition, name, FileId(file.group), HALF, 10 * len(file.keys) + 1)


class Files:
    """Reads the files of one view, and counts them."""

    def __init__(self, view: View) -> None:
        self._files = {file.path: file for file in view.values()}
        self.read: list[str] = []

    def __call__(
        self, files: Sequence[BaseFile], wanted: Wanted, remembered: Mapping[str, bool]
    ) -> Iterator[Answer]:
        for file in files:
            self.read.append(file.path)
            sought = wanted[file.partition_path].to_pylist()
            held = self._files[file.path].keys
            at = [sought.index(key) for key in held if key in sought]
            pruned = not at and not remembered.get(file.path, True)
            hashes = key_hashes(pa.array(held, pa.string())).tobytes()
            told = hashes if file.path in remembered and not pruned else None
            yield file.path, np.array(at, np.int32).tobytes(), told


def look_up(
    states: KeyStates,
    view: View,
    sought: Mapping[str, Sequence[str]],
    sure: bool = False,
    most_bytes: int = PLENTY,
    at_once_bytes: int = PLENTY,
) -> tuple[dict[str, set[str]], Files]:
    """The groups of each key of each partition, as ``p/key``."""
    files = [as_base_file(f) for f in view.values() if f.partition in sought]
    reader = Files(view)
    lookup = StatefulLookup(states, ROOT, most_bytes, reader, lambda: 10, at_once_bytes)
    wanted = {partition: pa.array(list(some), pa.string()) for partition, some in sought.items()}
    found, figures = lookup.places(wanted, files, {}, sure)
    places: dict[str, set[str]] = {}
    for ordinal, at in found:
        file = files[ordinal]
        for key in wanted[file.partition_path].take(pa.array(at)).to_pylist():
            places.setdefault(f"{file.partition_path}/{key}", set()).add(file.file_id)
    assert figures.hits == len(places)
    assert figures.probed == sum(map(len, sought.values()))
    assert figures.files_read + figures.files_verified == len(reader.read)
    return places, reader


def truth(view: View, sought: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    places: dict[str, set[str]] = {}
    for file in view.values():
        for key in set(file.keys) & set(sought.get(file.partition, ())):
            places.setdefault(f"{file.partition}/{key}", set()).add(file.group)
    return places


def harmless(found: Mapping[str, set[str]], true: Mapping[str, set[str]]) -> bool:
    """Whether an answer differs at most in one place of keys that have none."""
    more = found.keys() - true.keys()
    return all(len(found[key]) == 1 for key in more) and true == {
        key: groups for key, groups in found.items() if key not in more
    }


class Lookups(RuleBasedStateMachine):
    """One application with a state upserts and deletes; others and services change the table."""

    def __init__(self) -> None:
        super().__init__()
        self.states = KeyStates(NARROW)
        self.view: View = {}
        self.before: View = {}
        self.made = 0

    def file(self, partition: str, group: str, held: Iterable[str]) -> File:
        self.made += 1
        return File(partition, group, f"{partition}/{group}_{self.made}", tuple(held))

    def new_group(self) -> str:
        self.made += 1
        return f"g{self.made}"

    def becomes(self, view: View) -> None:
        self.before, self.view = self.view, view

    @initialize(rows=st.lists(st.tuples(partitions, keys), max_size=30), parts=st.integers(1, 4))
    def begin(self, rows: list[tuple[str, str]], parts: int) -> None:
        for partition in PARTITIONS:
            mine = [key for place, key in rows if place == partition]
            for part in range(parts if mine else 0):
                group = self.new_group()
                self.view[group] = self.file(partition, group, mine[part::parts])

    @rule(batch=batches, ends=st.sampled_from(["", "", "", "unknown", "failed"]))
    def upsert(self, batch: list[tuple[str, str, bool]], ends: str) -> None:
        """Ours. It fails, or lands and nobody knows, or commits."""
        sought = {p: sorted({k for q, k, _ in batch if q == p}) for p in PARTITIONS}
        sought = {p: some for p, some in sought.items() if some}
        found, _ = look_up(self.states, self.view, sought)
        true = truth(self.view, sought)
        assert harmless(found, true)
        view, placed, stats = self.merged(batch, found)
        if ends != "failed":
            self.becomes(view)
        if not ends and stats:
            self.states.learn(ROOT, changes_of(placed, stats), PLENTY)
        if ends != "failed":
            last = {(p, k): gone for p, k, gone in batch}
            for (partition, key), gone in last.items():
                copies = sum(
                    key in file.keys for file in self.view.values() if file.partition == partition
                )
                had = len(true.get(f"{partition}/{key}", ()))
                assert copies == (0 if gone else max(1, had))

    def merged(
        self, batch: list[tuple[str, str, bool]], found: Mapping[str, set[str]]
    ) -> tuple[View, PlacedRows, list[WriteStat]]:
        """What tasks do with the rows, and what they count."""
        fresh_group = {p: self.new_group() for p in PARTITIONS}
        rows = [
            (group, partition, key, gone, f"{partition}/{key}" not in found)
            for partition, key, gone in batch
            for group in found.get(f"{partition}/{key}", {fresh_group[partition]})
        ]
        # As in a write: new keys go to a group that changes anyway, where there is one.
        updated = {p: g for g, p, _, _, fresh in rows if not fresh}
        rows = [(updated.get(p, g) if f else g, p, k, d, f) for g, p, k, d, f in rows]
        view, stats, plans = dict(self.view), [], {}
        names = sorted({group for group, *_ in rows})
        for ordinal, group in enumerate(names):
            mine = [row for row in rows if row[0] == group]
            old = self.view.get(group)
            last = {key: gone for _, _, key, gone, _ in mine}
            kept = [key for key in (old.keys if old else ()) if not last.get(key)]
            new = [k for k, gone in last.items() if not gone and k not in (old.keys if old else ())]
            file = self.file(mine[0][1], group, [*kept, *new])
            view[group] = file
            deletes = (len(old.keys) if old else 0) - len(kept)
            plans[ordinal] = GroupPlan(ordinal, group, file.partition, old.path if old else None)
            stats.append(
                WriteStat(
                    FileId(group),
                    file.path,
                    file.partition,
                    num_writes=len(file.keys),
                    num_inserts=len(new),
                    num_deletes=deletes,
                )
            )
        table = pa.table(
            {
                RECORD_KEY: pa.array([row[2] for row in rows], pa.string()),
                DELETE: pa.array([row[3] for row in rows], pa.bool_()),
            }
        )
        groups = np.array([names.index(row[0]) for row in rows], np.int64)
        fresh = np.array([row[4] for row in rows], np.bool_)
        return view, PlacedRows(table, groups, fresh, Assignment(plans, {}, {})), stats

    @rule(data=st.data(), more=st.lists(keys, max_size=5))
    def another_writer_changes_a_group(self, data: st.DataObject, more: list[str]) -> None:
        """Its inserts leave copies of keys in several groups, and twice in one."""
        if not self.view:
            return
        file = self.view[data.draw(st.sampled_from(sorted(self.view)))]
        left = [key for key in file.keys if data.draw(st.booleans())]
        changed = self.file(file.partition, file.group, [*left, *more])
        self.becomes({**self.view, file.group: changed})

    @rule(partition=partitions, held=st.lists(keys, max_size=5))
    def another_writer_adds_a_group(self, partition: str, held: list[str]) -> None:
        group = self.new_group()
        self.becomes({**self.view, group: self.file(partition, group, held)})

    @rule()
    def the_last_commit_is_rolled_back(self) -> None:
        self.view = dict(self.before)

    @rule(partition=partitions)
    def a_partition_is_clustered(self, partition: str) -> None:
        mine = [file for file in self.view.values() if file.partition == partition]
        group = self.new_group()
        held = [key for file in mine for key in file.keys]
        rest = {g: file for g, file in self.view.items() if file.partition != partition}
        self.becomes({**rest, group: self.file(partition, group, held)})

    @rule(sought=st.sets(keys, min_size=1), sure=st.booleans())
    def a_write_that_began_earlier_looks_keys_up(self, sought: set[str], sure: bool) -> None:
        self.check(self.before, sorted(sought), sure)

    @rule(sought=st.sets(keys, min_size=1), sure=st.booleans())
    def keys_are_looked_up(self, sought: set[str], sure: bool) -> None:
        self.check(self.view, sorted(sought), sure)

    def check(self, view: View, some: list[str], sure: bool) -> None:
        sought = dict.fromkeys(PARTITIONS, some)
        found, _ = look_up(self.states, view, sought, sure)
        true = truth(view, sought)
        assert found == true if sure else harmless(found, true)

    @invariant()
    def the_next_lookup_of_the_present_state_misses_nothing(self) -> None:
        """Without a trace in the state."""
        state = {p: self.states.of(ROOT, p) for p in PARTITIONS}
        for partition in PARTITIONS:
            mine = {f.path: f for f in self.view.values() if f.partition == partition}
            covered = state[partition].of_view(mine)
            found = {path: set(at.tolist()) for path, at in covered.find(hashes_of(KEYS))}
            for path in covered.files:
                held = {KEYS.index(key) for key in mine[path].keys}
                assert held <= found.get(path, set())


def hashes_of(some: Sequence[str]) -> np.ndarray:  # type: ignore[type-arg]
    return key_hashes(pa.array(some, pa.string()))


TestLookups = Lookups.TestCase
TestLookups.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)


def view_of(*files: File) -> View:
    return {file.group: file for file in files}


def filled(rows: int) -> KeyState:
    """A state of one file."""
    return KeyState().with_read({"p/f": hashes_of([f"k{n}" for n in range(rows)])}, ())


ONE = File("p", "g1", "p/one", ("a", "b"))
TWO = File("p", "g2", "p/two", ("c", "b"))


def test_the_second_lookup_of_a_file_reads_nothing() -> None:
    states, view = KeyStates(), view_of(ONE)
    _, first = look_up(states, view, {"p": ["a", "x"]})
    places, second = look_up(states, view, {"p": ["b", "y"]})
    assert (first.read, second.read) == (["p/one"], [])
    assert places == {"p/b": {"g1"}}


def test_large_files_are_remembered_from_the_second_lookup_in_their_partition_on() -> None:
    states, view = KeyStates(), view_of(ONE, TWO)
    for files_read in (2, 2, 0):
        places, reader = look_up(states, view, {"p": ["a", "c"]}, at_once_bytes=10)
        assert (len(reader.read), places) == (files_read, {"p/a": {"g1"}, "p/c": {"g2"}})


def test_a_file_that_changed_is_read_and_no_other() -> None:
    states = KeyStates()
    look_up(states, view_of(ONE, TWO), {"p": ["a", "c"]})
    changed = File("p", "g2", "p/changed", ("c", "d"))
    places, reader = look_up(states, view_of(ONE, changed), {"p": ["a", "d"]})
    assert reader.read == ["p/changed"]
    assert places == {"p/a": {"g1"}, "p/d": {"g2"}}


def test_a_key_that_two_files_may_have_is_looked_up_in_both() -> None:
    states = KeyStates()
    look_up(states, view_of(ONE, TWO), {"p": ["a", "b", "c"]})
    places, reader = look_up(states, view_of(ONE, TWO), {"p": ["b", "c"]})
    assert sorted(reader.read) == ["p/one", "p/two"]
    assert places == {"p/b": {"g1", "g2"}, "p/c": {"g2"}}


def test_a_lookup_that_must_be_sure_reads_the_files_that_may_have_a_key() -> None:
    states = KeyStates(48)
    look_up(states, view_of(ONE), {"p": ["a"]})
    assert look_up(states, view_of(ONE), {"p": ["x"]})[0] == {"p/x": {"g1"}}
    places, reader = look_up(states, view_of(ONE), {"p": ["x"]}, sure=True)
    assert (places, reader.read) == ({}, ["p/one"])


def test_a_file_whose_footer_was_enough_is_read_whole_at_the_next_lookup() -> None:
    states, view = KeyStates(), view_of(ONE)
    for key, files_read in (("x", 1), ("y", 1), ("z", 0)):
        places, reader = look_up(states, view, {"p": [key]})
        assert (places, len(reader.read)) == ({}, files_read)


def test_what_finds_no_room_is_read_each_time() -> None:
    big = [File("p", f"g{n}", f"p/f{n}", tuple(f"{n}k{m}" for m in range(100))) for n in range(4)]
    states, view = KeyStates(), view_of(*big)
    for lookup in range(3):
        sought = ["0k1", "1k1", "2k1", "3k1"]
        places, reader = look_up(states, view, {"p": sought}, most_bytes=3_000)
        assert len(places) == 4
        assert len(reader.read) == (4 if not lookup else 2)
        assert states.nbytes <= 3_000


def test_a_commit_for_which_there_is_no_room_leaves_the_rest() -> None:
    states, other = KeyStates(), File("p", "g2", "p/other", ("c",))
    look_up(states, view_of(ONE), {"p": ["a"]}, most_bytes=1_000)
    keys = hashes_of([f"k{n}" for n in range(100)])
    states.learn(ROOT, {"p": [GroupChange(None, "p/other", keys, keys[:0], 0, 100)]}, 1_000)
    _, reader = look_up(states, view_of(ONE, other), {"p": ["a"]}, most_bytes=1_000)
    assert reader.read == ["p/other"]


def test_without_a_state_every_lookup_reads() -> None:
    states, view = KeyStates(), view_of(ONE)
    for _ in range(2):
        _, reader = look_up(states, view, {"p": ["a"]}, most_bytes=0)
        assert reader.read == ["p/one"]
    assert states.nbytes == 0


def test_the_partition_that_was_not_used_for_longest_is_dropped_first() -> None:
    held = tuple(f"k{m}" for m in range(100))
    view = view_of(*[File(p, f"g{p}", f"{p}/f", held) for p in "abc"])
    states = KeyStates()
    for partition, files_read in (("a", 1), ("b", 1), ("a", 0), ("c", 1), ("a", 0), ("b", 1)):
        _, reader = look_up(states, view, {partition: ["k1"]}, most_bytes=3_000)
        assert (partition, len(reader.read)) == (partition, files_read)


def test_a_small_bound_of_one_table_takes_nothing_from_another() -> None:
    states, state = KeyStates(), filled(100)
    states.keep("a", "p", state, 10_000)
    states.keep("b", "p", state, 10)
    states.keep("b", "q", filled(1), state.nbytes - 1)
    assert states.kept() == (("a", "p"), ("b", "q"))
    assert states.nbytes_of("a") == state.nbytes
    assert states.nbytes_of("b") == filled(1).nbytes
    assert states.nbytes_of("c") == 0


def test_all_tables_together_stay_within_the_largest_bound() -> None:
    states, state = KeyStates(), filled(100)
    most = 3 * state.nbytes
    for root in "abc":
        states.keep(root, "p", state, most)
    states.keep("c", "q", state, most)
    assert states.kept() == (("b", "p"), ("c", "p"), ("c", "q"))
    states.of("b", "p")
    states.keep("d", "p", state, state.nbytes)
    assert states.kept() == (("c", "q"), ("b", "p"), ("d", "p"))
    states.keep("d", "p", filled(101), state.nbytes)
    assert states.kept() == (("c", "q"), ("b", "p"))


def test_tables_have_states_of_their_own() -> None:
    states = KeyStates()
    look_up(states, view_of(ONE), {"p": ["a"]})
    states.forget("memory:/other")
    assert look_up(states, view_of(ONE), {"p": ["a"]})[1].read == []
    states.forget(ROOT)
    assert look_up(states, view_of(ONE), {"p": ["a"]})[1].read == ["p/one"]


def changes(
    rows: list[tuple[str, bool, bool]], inserts: int, deletes: int = 0
) -> list[GroupChange]:
    """What is learned of a merge into group g1; ``rows`` are key, deletes, is new."""
    table = pa.table(
        {
            RECORD_KEY: pa.array([key for key, _, _ in rows], pa.string()),
            DELETE: pa.array([gone for _, gone, _ in rows], pa.bool_()),
        }
    )
    fresh = np.array([new for _, _, new in rows], np.bool_)
    plan = GroupPlan(0, "g1", "p", "p/one")
    placed = PlacedRows(table, np.zeros(len(rows), np.int64), fresh, Assignment({0: plan}, {}, {}))
    counted = WriteStat(
        FileId("g1"), "p/new", "p", num_writes=9, num_inserts=inserts, num_deletes=deletes
    )
    return changes_of(placed, [counted]).get("p", [])


def test_a_merge_adds_each_new_key_once_and_may_delete_known_ones() -> None:
    rows = [("a", False, False), ("b", True, False), ("x", False, True), ("x", False, True)]
    (change,) = changes([*rows, ("y", False, True), ("z", True, True)], inserts=2, deletes=1)
    assert (change.old, change.new, change.deletes, change.rows) == ("p/one", "p/new", 1, 9)
    assert sorted(change.added) == sorted(hashes_of(["x", "y"]))
    assert list(change.deleted) == list(hashes_of(["b"]))


def test_a_merge_that_inserted_a_key_taken_for_known_is_not_learned() -> None:
    assert changes([("a", False, False), ("x", False, True)], inserts=2) == []


def test_a_new_key_with_rows_that_delete_it_is_learned_if_it_was_not_inserted() -> None:
    rows = [("x", False, True), ("x", True, True), ("y", False, True)]
    (change,) = changes(rows, inserts=1)
    assert list(change.added) == list(hashes_of(["y"]))
    assert changes(rows, inserts=2) == []
