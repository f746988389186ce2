"""The house style as a ratchet: what breaks it today is listed, and the list may only shrink."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULE_LINES, FUNCTION_LINES, LINE_COLUMNS = 500, 60, 100

# Places that break a rule today, as "rule path" or "rule path:name". An entry that is no longer
# needed fails the test as well: delete it.
RATCHET: frozenset[str] = frozenset()

# Time and chance, which only clock.py may touch: imports, and attributes of what is imported.
CHANCE = {
    "random", "time.time", "time.time_ns", "time.sleep", "time.monotonic",
    "time.perf_counter", "uuid.uuid1", "uuid.uuid4", "datetime.now", "datetime.utcnow",
    "datetime.today", "date.today", "datetime.datetime.now", "datetime.datetime.utcnow",
    "datetime.date.today", "threading.Timer", "os.urandom",
}  # fmt: skip

# Modules that something outside the package starts by name.
STARTED_BY_NAME = re.compile(r"pyhudi(?:\.\w+)+")
# The test kit is public: it is there for the tests of others, too.
TEST_KIT = {
    f"python/pyhudi/{name}.py"
    for name in ("storage/memory", "storage/faults", "storage/slow", "locks/in_process")
}
STARTERS = ("setup.py", "Makefile", "jvm-shim", "integration", "benchmarks", "docs")

VAGUE_NAME = re.compile(r"(?:class|object|trait|def)\s+(\w*(?:Manager|Helper|Utils?|Impl))\b")
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b")
UNMERGED = re.compile(r"^\s*(?:<{7}|>{7}) \w+", re.MULTILINE)
MACHINE_PATH = re.compile(r"[\"'\s(](?:/home/|/Users/|/root/)\w")


def sources(*suffixes: str) -> dict[str, str]:
    """The code that ships, by path from the root."""
    folders = (ROOT / "python", ROOT / "jvm-shim")
    found = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in suffixes and "target" not in path.parts
    }
    assert found, "no sources were found"
    return found


def long_modules(path: str, text: str) -> Iterator[str]:
    if text.count("\n") > MODULE_LINES:
        yield path


def long_lines(path: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LINE_COLUMNS:
            yield f"{path}:{number}"


def long_functions(path: str, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno >= FUNCTION_LINES:
                yield f"{path}:{node.name}"


def own_clocks(path: str, text: str) -> Iterator[str]:
    """Uses of time and chance beside the clock; `from time import time` counts as well."""
    if path.endswith("pyhudi/clock.py"):
        return
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (f"{path}:{name}" for name in names if name in CHANCE)


def undocumented_modules(path: str, text: str) -> Iterator[str]:
    empty = path.endswith("__init__.py") and not text.strip()
    if not empty and ast.get_docstring(ast.parse(text)) is None:
        yield path


def vague_names(path: str, text: str) -> Iterator[str]:
    yield from (f"{path}:{found[1]}" for found in VAGUE_NAME.finditer(text))


def unfinished_work(path: str, text: str) -> Iterator[str]:
    yield from (f"{path}:{found[0]}" for found in UNFINISHED.finditer(text))


def unmerged_conflicts(path: str, text: str) -> Iterator[str]:
    yield from (f"{path}:{found[0].strip()}" for found in UNMERGED.finditer(text))


def machine_paths(path: str, text: str) -> Iterator[str]:
    yield from (f"{path}:{found[0].strip()}" for found in MACHINE_PATH.finditer(text))


Rule = Callable[[str, str], Iterator[str]]
EVERYWHERE: tuple[Rule, ...] = (
    long_modules, long_lines, vague_names, unfinished_work, machine_paths,
    unmerged_conflicts,
)  # fmt: skip
IN_PYTHON: tuple[Rule, ...] = (long_functions, own_clocks, undocumented_modules)


def dead_modules() -> set[str]:
    """Python modules that nothing imports and nothing starts; tests do not keep a module alive."""
    texts = sources(".py")
    names = {
        path: path.removeprefix("python/").removesuffix(".py").replace("/", ".")
        for path in texts
        if not path.endswith("__init__.py") and path not in TEST_KIT
    }
    alive = set()
    for starter in STARTERS:
        top = ROOT / starter
        files = [top] if top.is_file() else [p for p in top.rglob("*") if p.is_file()]
        for file in files:
            if file.suffix in ("", ".py", ".scala", ".java", ".md"):
                alive |= set(STARTED_BY_NAME.findall(file.read_text(encoding="utf-8")))
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                alive |= {alias.name for alias in node.names if alias.name != names.get(path)}
            elif isinstance(node, ast.ImportFrom):
                alive |= {str(node.module), *(f"{node.module}.{a.name}" for a in node.names)}
    return {f"dead_modules {path}" for path, name in names.items() if name not in alive}


# One subject in several layers (the bytes, then who reads or changes them), or one role in several
# folders: such modules may have one name. Any other pair means two things.
SHARED_MODULES = frozenset({
    "__init__", "base", "hive_metastore", "instants", "jobs", "markers", "open", "properties",
    "schema_history",
})  # fmt: skip


def shared_names(texts: dict[str, str]) -> set[str]:
    """Names that two modules have, or two classes; a ``_Class`` is known in its module alone."""
    modules = [Path(path).stem for path in texts]
    classes = [
        node.name
        for text in texts.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    twice = [
        *(f"module {name}" for name in set(modules) - SHARED_MODULES if modules.count(name) > 1),
        *(f"class {name}" for name in set(classes) if classes.count(name) > 1),
    ]
    return set(twice)


def test_no_two_modules_or_classes_bear_one_name() -> None:
    assert shared_names(sources(".py")) == set()


def test_a_name_that_is_given_twice_is_seen() -> None:
    one, other = "class Table:\n    pass", "class _Kept:\n    pass"
    given = {"a/view.py": one, "b/view.py": other, "a/open.py": other, "b/open.py": one}
    assert shared_names(given) == {"module view", "class Table"}


def test_the_code_keeps_the_house_style() -> None:
    broken = {
        f"{rule.__name__} {place}"
        for rules, suffixes in ((EVERYWHERE, (".py", ".scala", ".java")), (IN_PYTHON, (".py",)))
        for path, text in sources(*suffixes).items()
        for rule in rules
        for place in rule(path, text)
    }
    broken |= dead_modules()
    assert sorted(broken - RATCHET) == [], "these break the style"
    assert sorted(RATCHET - broken) == [], "these are mended: take them out of RATCHET"


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (long_modules, "x = 1\n" * 501),
        (long_lines, "x = '" + "y" * 100 + "'"),
        (long_functions, "def f():\n" + "    x = 1\n" * 60),
        (own_clocks, "import random"),
        (own_clocks, "from time import sleep"),
        (own_clocks, "import datetime\nx = datetime.datetime.now()"),
        (undocumented_modules, "x = 1"),
        (vague_names, "class TableManager:"),
        (vague_names, "object FileUtils {"),
        (unfinished_work, "# TODO: the rest"),
        (machine_paths, "x = '/home/me/table'"),
        (unmerged_conflicts, "x = 1\n    " + "<" * 7 + " HEAD\n"),
    ],
)
def test_each_rule_sees_what_it_forbids(rule: Rule, text: str) -> None:
    assert list(rule("python/pyhudi/a.py", text)) != []


def test_time_is_allowed_in_the_clock() -> None:
    assert list(own_clocks("python/pyhudi/clock.py", "import random")) == []
