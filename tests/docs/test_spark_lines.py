"""The Spark lines that pages, Makefile and build.sbt name are those of ``spark/jars.py``."""

from __future__ import annotations

import re
from pathlib import Path

from pyhudi.spark.jars import LINES, OLDEST_JAVA

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (\d\.\d) \| (\S+) \| (\S+) \| (\d+) to (\d+) \| .* \| `(\S+)` \|$", re.M)


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_the_page_has_the_row_of_each_line() -> None:
    rows = [
        (line.name, line.tested, line.scala, str(OLDEST_JAVA), str(line.newest_java), line.jar)
        for line in LINES.values()
    ]
    assert ROW.findall(text("docs/spark_lines.md")) == rows


def test_make_installs_the_version_of_each_line_that_it_is_tested_on() -> None:
    installed = re.findall(r"^SPARK\d+ := (\S+)$", text("Makefile"), re.M)
    assert installed == [line.tested for line in LINES.values()]


def test_the_shim_is_built_for_each_line() -> None:
    built = re.findall(r'shim\w*\("(\d+\.\d+)\.\d+", "(\d+\.\d+)\.\d+"', text("build.sbt"))
    assert built == [(line.name, line.scala) for line in LINES.values()]
    (jars,) = re.findall(r"^JARS := (.+)$", text("Makefile"), re.M)
    asked = re.findall(r"(\d\.\d)_(2\.\d+)", jars)
    assert asked == built


def test_the_readme_names_each_line() -> None:
    *older, newest = LINES
    assert f"| Spark | {', '.join(older)} and {newest}, each" in text("README.md")
