"""The site: each page has its place in the navigation, each public name its place in the API."""

from __future__ import annotations

import re
from pathlib import Path

import pyhudi

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_every_page_has_one_place_in_the_navigation() -> None:
    site = (ROOT / "mkdocs.yml").read_text("utf-8")
    places = re.findall(r"[\w/]+\.md$", site, re.MULTILINE)
    written = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    assert sorted(places) == written


def test_every_public_name_is_on_the_page_of_the_api() -> None:
    page = (DOCS / "api.md").read_text("utf-8")
    public = {getattr(pyhudi, name) for name in pyhudi.__all__ if name[0] != "_"}
    named = {line[4:] for line in page.splitlines() if line.startswith("::: pyhudi.")}
    classes = {f"{each.__module__}.{each.__name__}" for each in public}
    assert classes - named == {"pyhudi.errors.HudiError"}, "on the page of errors"
    assert named <= classes
