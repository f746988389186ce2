"""The errors themselves: their text, their typed fields, and who may read them all at once."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from pyhudi import errors
from pyhudi.errors import CommitConflict, FileExists, HudiError, LockTimeout, StorageError
from pyhudi.transactions.markers.marker_log import MarkerRefused, Refusal

PACKAGE = Path(errors.__file__).parent
#: who shows or carries all facts of an error; everybody else names the one that he wants
CARRIERS = {"errors.py", "rows/task.py"}
CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, HudiError)
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_says_its_name_and_has_its_defaults(cls: type[HudiError]) -> None:
    error = cls("what, why, what now")
    assert str(error) == f"[{cls.code()}] what, why, what now"
    assert repr(error) == f"{cls.__name__}('{error}')"
    assert error.facts == {}
    for field in fields(cls):
        assert getattr(error, field.name) == field.default


def test_a_fact_that_the_class_does_not_declare_is_refused_at_once() -> None:
    with pytest.raises(TypeError):
        StorageError("no answer", outcome="unknown")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        _ = StorageError("no answer").outcome  # type: ignore[attr-defined]


def test_the_facts_of_an_error_are_its_fields_that_were_set() -> None:
    error = CommitConflict("late", ours="1", overlap=(("p", "f"),))
    error.again_in_ms = 7
    assert error.facts == {"ours": "1", "overlap": (("p", "f"),), "again_in_ms": 7}
    assert FileExists("taken", path="p").facts == {"path": "p"}


def test_an_error_in_other_words_has_the_same_facts() -> None:
    error = LockTimeout("held", owner="ann", since=7)
    again = error.restated("still held")
    assert (str(again), again.owner, again.since) == ("[LOCK_TIMEOUT] still held", "ann", 7)
    assert (str(error), again is error) == ("[LOCK_TIMEOUT] held", False)


def test_a_marker_that_is_refused_is_a_storage_error_for_users() -> None:
    error = MarkerRefused("sealed", refusal=Refusal.SEALED)
    assert str(error) == "[STORAGE_ERROR] sealed"
    assert not error.had_no_effect


def test_no_code_decides_by_the_dictionary_of_an_errors_facts() -> None:
    readers = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if ".facts" in path.read_text("utf-8")
    }
    assert readers <= CARRIERS
