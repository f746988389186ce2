"""The mutants fit the code as it is, and speak of every row of the guard table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.mutant import ROOT, Guard, Mutant, MutantMisfit, edited, guard_rows
from tests.mutants.page import PAGE
from tests.mutants.run import node_ids
from tests.mutants.table import GUARDS, MUTANTS

ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def test_each_row_of_the_guard_table_is_here_once() -> None:
    assert sorted(guard.row for guard in GUARDS) == sorted(guard_rows(ARCHITECTURE))


def test_each_row_has_a_mutant_or_a_reason() -> None:
    bare = [guard.row for guard in GUARDS if not guard.mutants and not guard.unproven]
    assert bare == []


def test_each_mutant_has_a_name_of_its_own_and_tests() -> None:
    twice = [what for what, times in Counter(m.what for m in MUTANTS).items() if times > 1]
    assert twice == []
    assert all(mutant.tests for mutant in MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_mutant_fits_one_place_and_names_tests_that_are_there(mutant: Mutant) -> None:
    assert edited(mutant).text != (ROOT / edited(mutant).path).read_text("utf-8")
    assert node_ids(mutant.tests)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.row)
def test_the_published_page_has_each_row_and_each_mutant(guard: Guard) -> None:
    page = PAGE.read_text("utf-8")
    assert guard.row in page, "run `make mutants`"
    assert [m.what for m in guard.mutants if m.what not in page] == [], "run `make mutants`"


def tree(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "python/pyhudi/a.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return tmp_path


def mutant(at: str, old: str, new: str) -> Mutant:
    return Mutant("x", at, ((old, new),), ("test_x",))


def test_new_statements_stand_behind_the_docstring(tmp_path: Path) -> None:
    root = tree(tmp_path, 'class A:\n    def f(self):\n        """Why."""\n        g()\n')
    assert edited(mutant("A.f", "", "return 1\nh()"), root).text == (
        'class A:\n    def f(self):\n        """Why."""\n        return 1\n        h()\n        g()\n'
    )


def test_an_edit_stays_within_its_function(tmp_path: Path) -> None:
    root = tree(tmp_path, "def f():\n    a()\n\n\ndef g():\n    def h():\n        a()\n")
    changed = edited(mutant("g.h", "a()", "b()"), root).text
    assert changed == "def f():\n    a()\n\n\ndef g():\n    def h():\n        b()\n"


@pytest.mark.parametrize(("at", "old"), [("g", "a()"), ("f", "b()"), ("f", "x"), ("", "y")])
def test_an_edit_that_fits_no_place_or_several_is_refused(
    tmp_path: Path, at: str, old: str
) -> None:
    root = tree(tmp_path, "def f():\n    x = y(x)\n    y()\n")
    with pytest.raises(MutantMisfit, match="must fit one place"):
        edited(mutant(at, old, "z"), root)


def test_tests_that_are_gone_are_named() -> None:
    with pytest.raises(MutantMisfit, match="test_that_nobody_wrote"):
        node_ids(("test_that_nobody_wrote",))
