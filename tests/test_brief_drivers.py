"""How the tests start Spark's drivers."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.servers.process import ARCHIVE, BRIEF_JVM, brief_driver


def test_a_driver_maps_the_archive_of_its_environment_once_it_is_made(tmp_path: Path) -> None:
    assert brief_driver(tmp_path) == BRIEF_JVM
    (tmp_path / ARCHIVE).touch()
    assert f"-XX:SharedArchiveFile={tmp_path / ARCHIVE}" in brief_driver(tmp_path)


def test_a_jvm_that_the_archive_does_not_fit_starts_without_a_word(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).write_bytes(b"of another Java")
    asked = ["java", *brief_driver(tmp_path), "-cp", str(tmp_path), "-version"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert not told.stdout
    assert all("version" in line or "OpenJDK" in line for line in told.stderr.splitlines())
