"""A guard taken out: where it is found, and what is written in its place.

A guard is found by the name of its class and function and by a piece of its text, wherever in the
package it lives, so that a module which moves takes its mutants along. Invariant: an edit fits
exactly one place; where it fits none, or several, ``MutantMisfit`` says which.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
PYTHON: Final = "python/pyhudi"
SCALA: Final = "jvm-shim/src/main"
TABLE: Final = re.compile(r"^## Where each guard lives\n(.*?)^## ", re.DOTALL | re.MULTILINE)


class MutantMisfit(Exception):
    """An entry of the table that fits the code no longer."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One edit that removes a guard, and the tests that must turn red by it.

    ``at`` is the qualified name of the function in its module (``Transaction.commit``), empty for a
    line outside of all functions or for Scala. Each of ``edits`` replaces a text that is there
    once; an empty one puts the new statements in front of the body. ``tests`` are names of test
    functions, perhaps with a parameter in brackets.
    """

    what: str
    at: str
    edits: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]
    spark: bool = False
    scala: bool = False


@dataclass(frozen=True, slots=True)
class Guard:
    """A row of ARCHITECTURE.md's table by its first cell.

    ``unproven`` says which part of the guard no mutant removes, why, and what test shows it.
    """

    row: str
    mutants: tuple[Mutant, ...] = ()
    unproven: str = ""


@dataclass(frozen=True, slots=True)
class Edited:
    """A file as a mutant has it; ``path`` is relative to the checkout."""

    path: str
    text: str


def guard_rows(architecture: str) -> list[str]:
    """First cells of the guard table."""
    found = TABLE.search(architecture)
    if found is None:
        raise MutantMisfit("ARCHITECTURE.md has no section 'Where each guard lives'")
    lines = [line for line in found[1].splitlines() if line.startswith("| ")]
    return [line[2:].split(" | ", 1)[0] for line in lines[2:]]


def edited(mutant: Mutant, root: Path = ROOT) -> Edited:
    """The one file that ``mutant`` changes, changed; ``MutantMisfit`` where that is not clear."""
    folder, suffix = (SCALA, ".scala") if mutant.scala else (PYTHON, ".py")
    texts = _sources(root / folder, suffix)
    places = [
        (path, start, end)
        for path, text in texts.items()
        for start, end in _places(mutant.at, path, text)
        if all(text.count(old, start, end) == 1 for old, _ in mutant.edits if old)
    ]
    if len(places) != 1:
        where = mutant.at or folder
        named = sum(len(list(_places(mutant.at, p, t))) for p, t in texts.items())
        raise MutantMisfit(
            f"'{mutant.what}' must fit one place, and fits {len(places)}: {named} places are "
            f"called {where}, and each of {[old for old, _ in mutant.edits]} must be there once. "
            "Where the guard was rewritten, take it out in its new form (tests/mutants)."
        )
    path, start, end = places[0]
    text, part = texts[path], texts[path][start:end]
    for old, new in mutant.edits:
        part = part.replace(old, new) if old else _in_front(part, new)
    changed = text[:start] + part + text[end:]
    if not mutant.scala:
        ast.parse(changed)
    return Edited(path.relative_to(root).as_posix(), changed)


@cache
def _sources(folder: Path, suffix: str) -> Mapping[Path, str]:
    return {path: path.read_text("utf-8") for path in sorted(folder.rglob(f"*{suffix}"))}


def _places(at: str, path: Path, text: str) -> Iterator[tuple[int, int]]:
    """Start and end of what is called ``at``: of the whole text where that is empty."""
    if not at:
        yield 0, len(text)
        return
    for name, start, end in _functions(path, text):
        if name == at:
            yield start, end


@cache
def _functions(path: Path, text: str) -> tuple[tuple[str, int, int], ...]:
    """Qualified names of functions, without ``<locals>``, and where each begins and ends."""
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    return tuple(
        (name, lines[node.lineno - 1], lines[node.end_lineno or 0])
        for name, node in _nested(ast.parse(text), "")
        if not isinstance(node, ast.ClassDef)
    )


Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _nested(node: ast.AST, above: str) -> Iterator[tuple[str, Named]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield above + child.name, child
            yield from _nested(child, f"{above}{child.name}.")
        else:
            yield from _nested(child, above)


def _in_front(part: str, new: str) -> str:
    """The function with ``new`` as its first statements, after the docstring."""
    lines = part.splitlines(keepends=True)
    indent = len(lines[0]) - len(lines[0].lstrip())
    dedented = "".join(line[indent:] if line.strip() else line for line in lines)
    function = ast.parse(dedented).body[0]
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    at = (first.end_lineno or 0) if documented else first.lineno - 1
    inside = " " * (indent + 4)
    return "".join([*lines[:at], *(f"{inside}{line}\n" for line in new.split("\n")), *lines[at:]])
