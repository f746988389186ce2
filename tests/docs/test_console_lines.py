"""The lines for a terminal in README.md, run by a shell, with stand-ins for make and pip."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELL = re.compile(r"^```shell\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STAND_IN = (
    '#!/bin/sh\nfor word in "${0##*/}" "$@"; do printf "%s " "$word"; done >> said\necho >> said\n'
)
WHEEL = "dist/pyhudi-0.1.0-py3-none-any.whl"


def said(folder: Path) -> list[list[str]]:
    """What the README's lines call in ``folder``, each call with its arguments."""
    (folder / "dist").mkdir()
    (folder / WHEEL).touch()
    (folder / "bin").mkdir()
    for name in ("make", "pip"):
        program = folder / "bin" / name
        program.write_text(STAND_IN)
        program.chmod(0o755)
    lines = "".join(SHELL.findall((ROOT / "README.md").read_text("utf-8")))
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    subprocess.run(["bash", "-euc", lines], cwd=folder, env={"PATH": path}, check=True)
    return [line.split() for line in (folder / "said").read_text().splitlines()]


def test_the_readmes_lines_do_what_they_say(tmp_path: Path) -> None:
    calls = said(tmp_path)
    assert ["pip", "install", f"{WHEEL}[all]"] in calls
    targets = re.findall(r"^([a-z][a-z0-9-]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    made = [target for program, *asked in calls if program == "make" for target in asked]
    assert made == ["quickstart", "test", "wheel"]
    assert set(made) <= set(targets)
