"""The state in front of the index: it misses no key, and what it cannot know it does not say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyhudi.index.key_state import MOST_STEPS, GroupChange, KeyState
from pyhudi.rows.hashing import Hashes, key_hashes


def hashes(*keys: str) -> Hashes:
    return key_hashes(pa.array(keys, pa.string()))


def places(state: KeyState, *keys: str) -> dict[str, list[str]]:
    found = state.find(hashes(*keys))
    return {path: [keys[n] for n in at] for path, at in found}


def loaded(unused_bits: int = 0, **files: list[str]) -> KeyState:
    state = KeyState(unused_bits=unused_bits)
    return state.with_read({path: hashes(*keys) for path, keys in files.items()}, ())


def test_each_key_is_found_in_its_file_and_others_in_none() -> None:
    state = loaded(one=["a", "b"], two=["c"]).of_view({"one", "two"})
    assert places(state, "c", "x", "a") == {"one": ["a"], "two": ["c"]}
    assert places(state, "x") == {}
    assert KeyState().find(hashes("a")) == []


def test_copies_of_a_key_are_found_in_each_of_their_files_once() -> None:
    state = loaded(one=["a", "a"], two=["a"]).of_view({"one", "two"})
    assert places(state, "a") == {"one": ["a"], "two": ["a"]}


def test_files_that_are_not_in_the_view_are_forgotten() -> None:
    state = loaded(one=["a"], two=["b"]).of_view({"two", "three"})
    assert set(state.files) == {"two"}
    assert places(state, "a", "b") == {"two": ["b"]}
    assert len(state.entries) == 1


def test_our_commit_moves_a_groups_entries_to_its_new_file() -> None:
    change = GroupChange("one", "new", hashes("c"), hashes("a"), 1, 2)
    state = loaded(one=["a", "b"]).after([change]).of_view({"new"})
    assert places(state, "a", "b", "c") == {"new": ["b", "c"]}


def test_a_change_of_a_file_that_is_not_covered_covers_nothing() -> None:
    change = GroupChange("other", "new", hashes("c"), hashes(), 0, 3)
    state = loaded(one=["a"]).after([change]).of_view({"one", "new"})
    assert set(state.files) == {"one"}


def test_a_new_group_is_covered_if_all_its_rows_are_known() -> None:
    whole = GroupChange(None, "new", hashes("c", "d"), hashes(), 0, 2)
    part = GroupChange(None, "part", hashes("e"), hashes(), 0, 2)
    state = KeyState().after([whole, part]).of_view({"new", "part"})
    assert set(state.files) == {"new"}
    assert places(state, "c", "e") == {"new": ["c"]}


def test_deletes_drop_entries_only_if_the_commit_counted_as_many_rows() -> None:
    many = [f"k{n}" for n in range(20)]
    one = GroupChange("one", "new", hashes(), hashes("k0", "k1"), 1, 19)
    state = loaded(one=many).after([one]).of_view({"new"})
    assert places(state, "k0", "k1") == {"new": ["k0", "k1"]}
    both = GroupChange("new", "newer", hashes(), hashes("k0", "k1", "k2"), 3, 17)
    assert places(state.after([both]).of_view({"newer"}), "k0", "k2", "k3") == {"newer": ["k3"]}


def test_a_file_with_too_many_dead_entries_is_read_again() -> None:
    many = [f"k{n}" for n in range(20)]
    change = GroupChange("one", "new", hashes(), hashes("k0", "k1", "k2"), 0, 17)
    assert not loaded(one=many).after([change]).of_view({"new"}).files


def test_a_file_with_more_rows_than_entries_is_read_again() -> None:
    change = GroupChange("one", "new", hashes(), hashes(), 0, 3)
    assert not loaded(one=["a", "b"]).after([change]).of_view({"new"}).files


def test_steps_are_taken_in_their_order() -> None:
    first = GroupChange("one", "two", hashes("b"), hashes(), 0, 2)
    second = GroupChange("two", "three", hashes("c"), hashes("a"), 1, 2)
    state = loaded(one=["a"]).after([first]).after([second])
    assert places(state.of_view({"three"}), "a", "b", "c") == {"three": ["b", "c"]}
    again = state.of_view({"three"}).with_read({"four": hashes("a", "z")}, ())
    found = places(again.of_view({"three", "four"}), "a", "b", "z")
    assert found == {"three": ["b"], "four": ["a", "z"]}


def test_numbers_of_files_that_are_gone_are_given_again() -> None:
    state = KeyState()
    for number in range(5):
        state = state.with_read({f"f{number}": hashes(f"k{number}")}, ())
        state = state.of_view({f"f{number}"})
    assert [covered.number for covered in state.files.values()] == [0]
    assert places(state, "k3", "k4") == {"f4": ["k4"]}


def test_keys_that_share_a_hash_are_all_found() -> None:
    state = loaded(48, one=["a"], two=["b"]).of_view({"one", "two"})
    assert places(state, "x") == {"one": ["x"], "two": ["x"]}


def test_a_deletion_beside_a_key_of_the_same_hash_drops_nothing() -> None:
    change = GroupChange("one", "new", hashes(), hashes("a"), 1, 9)
    state = loaded(48, one=[f"k{n}" for n in range(9)] + ["a"]).after([change]).of_view({"new"})
    assert places(state, "k1") == {"new": ["k1"]}


def test_what_it_takes_is_told_before_and_after_it_is_sorted() -> None:
    many = [f"k{n}" for n in range(10_000)]
    state = loaded(one=many)
    assert 80_000 <= state.nbytes <= 81_000
    assert 80_000 <= state.of_view({"one"}).nbytes <= 81_000
    assert np.all(np.diff(state.of_view({"one"}).entries.astype(object)) >= 0)


def test_commits_without_a_lookup_between_them_do_not_pile_up() -> None:
    state = loaded(f0=["a"])
    for number in range(100):
        change = GroupChange(
            f"f{number}", f"f{number + 1}", hashes(f"k{number}"), hashes(), 0, number + 2
        )
        state = state.after([change])
        assert len(state.steps) <= MOST_STEPS
    state = state.of_view({"f100"})
    assert places(state, "a", "k0", "k99", "k100") == {"f100": ["a", "k0", "k99"]}
