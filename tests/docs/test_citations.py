"""What code, tests and pages cite is in this repository: rules, sections, tests, tables, links.

A rule of the format is cited as ``spec/<page>.md <rule>``, a section of the architecture by its
heading in quotes behind the file's name. Nothing cites a document that lies elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import golden_tables

ROOT = Path(__file__).parents[2]
SPEC = "docs/spec"
PLACES = ("python", "tests", "integration", "benchmarks", "jvm-shim/src", "docs")
SUFFIXES = {".py", ".scala", ".java", ".md", ".sql"}
#: they have wrong citations and foreign paths on purpose
EXAMPLES = ("tests/docs/test_citations.py", "tests/test_tidy.py")

#: Apache Hudi's requests for comments that the code goes by
RFCS = {
    22: "concurrent writers, numbered locks, incremental reads",
    24: "a state in front of the index",
    82: "schema conflicts",
}

RULE = r"[A-Z]{1,2}\d+"
CITED_PAGE = re.compile(rf"(\]\()?\bspec/(\w+\.md)(#[\w-]+)?((?:(?:,| and| to)? {RULE}\b)*)")
CITED_SECTION = re.compile(r'\bARCHITECTURE\.md, "([^"]+)"')
CITED_TEST = re.compile(r"\b((?:tests|integration)/[\w/]+\.py)::(\w+)")
CITED_TABLE = re.compile(r"`(h(?:0150|102|120)_v\d[\w.-]*)`")
CITED_RFC = re.compile(r"\bRFC-?(\d+)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
RULE_HEADING = re.compile(rf"### ({RULE}) \S")
ELSEWHERE = re.compile(
    r"\b(?:FORMAT|DESIGN|MERGE_ON_READ)\.md\b|(?<![\w.])/(?:work|home|root|Users)/\w"
)
SHOWN = ("Shown by ", "ot shown by a test here")


@dataclass(frozen=True)
class Project:
    """What there is to cite: every text by its path from the root, and the names of tables."""

    texts: dict[str, str]
    tables: frozenset[str] = frozenset()
    headings: dict[str, list[str]] = field(default_factory=dict)

    @staticmethod
    def of(texts: dict[str, str], tables: frozenset[str] = frozenset()) -> Project:
        pages = {path: text for path, text in texts.items() if path.endswith(".md")}
        return Project(texts, tables, {path: headings(text) for path, text in pages.items()})

    def rules(self, page: str) -> list[str]:
        found = (RULE_HEADING.match(f"### {title}") for title in self.headings[page])
        return [rule[1] for rule in found if rule]

    def anchors(self, page: str) -> set[str]:
        return {anchor(title) for title in self.headings[page]}


def headings(text: str) -> list[str]:
    """The titles of a page, without those in blocks of code."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [title for _, title in HEADING.findall(prose)]


def anchor(title: str) -> str:
    """The anchor that mkdocs and GitHub give a heading."""
    plain = re.sub(r"[^\w\s-]", "", title.replace("`", "")).strip().lower()
    return re.sub(r"\s+", "-", plain)


def project() -> Project:
    paths = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md")]
    for place in PLACES:
        paths += (p for p in (ROOT / place).rglob("*") if p.suffix in SUFFIXES)
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted(paths)}
    return Project.of(texts, frozenset(golden_tables.BY_NAME))


def faults(project: Project, path: str) -> Iterator[str]:
    """What the text at ``path`` cites and that is not there."""
    text = re.sub(r"\s*\n\s*(?:#|//|\*(?!\S))?\s*", " ", project.texts[path])
    yield from _of_rules(project, path, text)
    yield from _of_sections(project, path, text)
    for file, name in CITED_TEST.findall(text) if path.endswith(".md") else ():
        if f"def {name}(" not in project.texts.get(file, ""):
            yield f"no test {file}::{name}"
    for name in CITED_TABLE.findall(text):
        if name not in project.tables:
            yield f"no golden table {name}"
    for number in CITED_RFC.findall(text):
        if int(number) not in RFCS:
            yield f"unknown RFC-{number}"
    for found in ELSEWHERE.finditer(text):
        yield f"{found[0]} lies outside of the repository"
    if path.endswith(".md"):
        yield from _of_links(project, path)


def _of_rules(project: Project, path: str, text: str) -> Iterator[str]:
    for linked, page, place, rules in CITED_PAGE.findall(text):
        name = f"{SPEC}/{page}"
        if name not in project.texts:
            yield f"no page {name}"
            continue
        if place and place[1:] not in project.anchors(name):
            yield f"no {place} on {name}"
        for rule in re.findall(RULE, rules):
            if rule not in project.rules(name):
                yield f"no rule {rule} on {name}"
        if not rules and not linked and not path.endswith(".md"):
            yield f"spec/{page} is cited without a rule"


def _of_sections(project: Project, path: str, text: str) -> Iterator[str]:
    if path.endswith(".md"):
        return
    for title in CITED_SECTION.findall(text):
        if title not in project.headings["ARCHITECTURE.md"]:
            yield f"no section '{title}' in ARCHITECTURE.md"


def _of_links(project: Project, path: str) -> Iterator[str]:
    prose = re.sub(r"^```.*?^```$", "", project.texts[path], flags=re.MULTILINE | re.DOTALL)
    for link in LINK.findall(prose):
        if "://" in link:
            continue
        file, _, place = link.partition("#")
        target = (ROOT / path).parent.joinpath(file).resolve() if file else ROOT / path
        name = target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else ""
        if not name or not (name in project.texts or target.exists()):
            yield f"no file {link}"
        elif place and name in project.headings and place not in project.anchors(name):
            yield f"no #{place} in {name}"


def unshown(project: Project) -> Iterator[str]:
    """Rules of the format that do not say what shows them, and pages whose rules are not in order.

    A page numbers its rules from 1, all with the letter that the index gives it.
    """
    index = project.texts.get(f"{SPEC}/index.md", "")
    for path, text in project.texts.items():
        if not path.startswith(f"{SPEC}/") or path.endswith("/index.md"):
            continue
        page = path.removeprefix(f"{SPEC}/")
        letter = re.search(rf"\]\({re.escape(page)}\) \| ([A-Z]+) \|", index)
        rules = project.rules(path)
        if letter is None or rules != [f"{letter[1]}{n}" for n in range(1, len(rules) + 1)]:
            yield f"{path}: rules {rules}"
        for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
            if not any(word in part for word in SHOWN):
                yield f"{path}: nothing is said of what shows {part.splitlines()[0]}"


def test_whatever_is_cited_is_there() -> None:
    all_texts = project()
    paths = [path for path in all_texts.texts if path not in EXAMPLES]
    wrong = {path: found for path in paths if (found := list(faults(all_texts, path)))}
    assert wrong == {}


def test_each_rule_of_the_format_says_what_shows_it() -> None:
    assert list(unshown(project())) == []


def test_rules_are_cited_all_over_the_code() -> None:
    found = [path for path, text in project().texts.items() if CITED_PAGE.search(text)]
    assert len([path for path in found if path.startswith("python/")]) > 40


# -- the checker itself ----------------------------------------------------------------------------

PAGE = "# Timeline\n\n### T1 States\n\nText. Shown by `x`.\n\n### T2 File names\n\nNot shown.\n"
HERE = Project.of(
    {
        f"{SPEC}/index.md": "| [Timeline](timeline.md) | T | instants |\n",
        f"{SPEC}/timeline.md": PAGE,
        "ARCHITECTURE.md": "# Architecture\n\n## Layers\n\n```text\n## no heading\n```\n",
        "tests/a/test_b.py": "def test_c() -> None:\n",
        "docs/guide.md": "# Guide\n",
    },
    frozenset({"h120_v9-cow_np"}),
)


def told(text: str, path: str) -> list[str]:
    return list(faults(Project.of({**HERE.texts, path: text}, HERE.tables), path))


@pytest.mark.parametrize(
    "text",
    [
        'rule="spec/timeline.md T1"',
        "[the format](spec/timeline.md)",
        "As in (spec/timeline.md T1, T2).",
        "As in spec/timeline.md T1 to T2, on S3.",
        "# As in spec/timeline.md\n    # T1 and T2.",
        'Steps: ARCHITECTURE.md,\n  "Layers".',
        "`tests/a/test_b.py::test_c` and RFC-22",
        "`h120_v9-cow_np`",
    ],
)
def test_a_right_citation_passes(text: str) -> None:
    assert told(text, "docs/a.md" if "::" in text else "python/pyhudi/a.py") == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('rule="spec/times.md T1"', "no page docs/spec/times.md"),
        ('rule="spec/timeline.md T3"', "no rule T3"),
        ("(spec/timeline.md T1, T9)", "no rule T9"),
        ("// spec/timeline.md T1 and\n  // T7", "no rule T7"),
        ("(spec/timeline.md)", "without a rule"),
        ('ARCHITECTURE.md, "no heading"', "no section 'no heading'"),
        ("`tests/a/test_b.py::test_d`", "no test"),
        ("`tests/a/test_z.py::test_c`", "no test"),
        ("`h120_v9-cow_nq`", "no golden table"),
        ("RFC-23's table", "unknown RFC-23"),
        ('rule="FORMAT.md 2.1"', "outside"),
        ("(DESIGN.md, step 7)", "outside"),
        ("in /home/notes", "outside"),
    ],
)
def test_a_wrong_citation_is_told(text: str, fault: str) -> None:
    (found,) = told(text, "docs/a.md" if "::" in text else "python/pyhudi/a.py")
    assert fault in found


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("spec/timeline.md", None),
        ("spec/timeline.md#t2-file-names", None),
        ("#here", None),
        ("https://hudi.apache.org", None),
        ("spec/timeline.md#t3-times", "t3-times"),
        ("spec/nothing.md", "nothing.md"),
        ("#there", "there"),
        ("../../elsewhere/page.md", "elsewhere"),
    ],
)
def test_a_link_leads_to_a_page_and_a_heading_of_it(link: str, fault: str | None) -> None:
    found = told(f"# Page\n\n## Here\n\n[link]({link})\n", "docs/page.md")
    assert (not found) if fault is None else any(fault in each for each in found)


def test_a_rule_that_nothing_shows_and_a_number_left_out_are_told() -> None:
    page = f"{SPEC}/timeline.md"
    silent = Project.of({**HERE.texts, page: PAGE})
    gap = Project.of(
        {**HERE.texts, page: PAGE.replace("T2", "T3").replace("Not shown", "Shown by `x`")}
    )

    assert list(unshown(silent)) == [f"{page}: nothing is said of what shows T2 File names"]
    assert list(unshown(gap)) == [f"{page}: rules ['T1', 'T3']"]
