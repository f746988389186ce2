"""The commands that repair a table: a plan unless they are told to run, and a way back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pyhudi
from pyhudi.cli.main import main
from tests.golden_tables import BY_NAME

Output = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return BY_NAME["h120_v9-cow_part"].unzip(tmp_path)


def test_orphans_are_printed_moved_and_put_back(root: Path, capsys: Output) -> None:
    files = pyhudi.Table(str(root)).files()
    instant = pyhudi.Table(str(root)).commits()[-1].instant
    stray = root / files[0].path.replace(files[0].instant, str(int(instant) + 1))
    stray.write_bytes(b"rows")
    assert main(["orphans", str(root)]) == 0
    assert "it is younger than 72 h" in capsys.readouterr().out
    assert main(["orphans", str(root), "--older-than", "0", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["file"], told["fate"]) == (stray.name, "would be moved")
    assert stray.exists()

    assert main(["orphans", str(root), "--older-than", "0", "--run", "--json"]) == 0
    (moved,) = json.loads(capsys.readouterr().out)
    assert not stray.exists()
    assert main(["bin", str(root), "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == [moved["bin"]]
    assert main(["bin", str(root), moved["bin"]]) == 0
    assert "put back" in capsys.readouterr().out
    assert stray.read_bytes() == b"rows"
    assert main(["bin", str(root)]) == 0
    assert capsys.readouterr().out == f"The bin of the table at {root} is empty.\n"
    stray.unlink()
    assert main(["orphans", str(root)]) == 0
    assert "belongs to a commit" in capsys.readouterr().out


def test_the_doctor_prints_and_repairs(root: Path, capsys: Output) -> None:
    metadata = root / "2024-01-02" / ".hoodie_partition_metadata"
    content = metadata.read_bytes()
    metadata.unlink()
    assert main(["doctor", str(root)]) == 1
    assert "partition metadata lost" in capsys.readouterr().out
    assert main(["doctor", str(root), "--run", "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)
    assert done["treatment"] == "repaired"
    assert metadata.read_bytes().splitlines()[-2:] == content.splitlines()[-2:]
    assert main(["doctor", str(root)]) == 0
    assert "nothing wrong" in capsys.readouterr().out
