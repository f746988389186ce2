"""The commands that look at a table: as text for people, as JSON for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pyhudi
from pyhudi.cli.main import main
from pyhudi.format.instants import State
from pyhudi.timeline.checkup import Severity
from tests.golden_tables import BY_NAME

Output = pytest.CaptureFixture[str]
CLEANED = "h120_v9-cow_clean_archive"
UPDATED = "h120_v9-cow_part"
FAILED = "h120_v9-cow_crash_direct.midfail"


def told(capsys: Output, *words: str) -> Any:
    """What a command prints as JSON."""
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(BY_NAME[UPDATED].unzip(tmp_path))


def test_json_says_what_python_says(root: str, capsys: Output) -> None:
    table = pyhudi.Table(root)
    assert told(capsys, "files", root) == table.files().records()
    assert told(capsys, "partitions", root) == table.partitions().records()
    assert told(capsys, "history", root) == table.history().records()
    assert told(capsys, "commits", root) == table.commits().records()
    assert told(capsys, "check", root) == []
    names = [field["name"] for field in told(capsys, "schema", root)["fields"]]
    assert names == table.schema().names


def test_show_tells_what_a_table_is(root: str, capsys: Output) -> None:
    shown = told(capsys, "show", root)
    table = pyhudi.Table(root)
    assert (shown["version"], shown["record_key_fields"]) == (9, ["id"])
    assert shown["size_bytes"] == sum(each.size_bytes for each in table.files())
    assert shown["last_commit"] == table.commits()[-1].instant
    assert main(["show", root]) == 0
    assert capsys.readouterr().out == f"{table!r}\n"


@pytest.mark.parametrize(
    ("command", "head"),
    [
        ("files", "partition"),
        ("partitions", "partition"),
        ("schema", "column"),
        ("commits", "instant"),
        ("commit", "instant"),
    ],
)
def test_each_list_is_a_table_for_people(
    command: str, head: str, root: str, capsys: Output
) -> None:
    assert main([command, root]) == 0
    assert capsys.readouterr().out.startswith(head)


def test_a_commit_is_the_last_one_unless_another_is_named(root: str, capsys: Output) -> None:
    commits = pyhudi.Table(root).commits()
    assert told(capsys, "commit", root)["commit"]["instant"] == commits[-1].instant
    first = told(capsys, "commit", root, commits[0].instant)
    assert first["commit"]["instant"] == commits[0].instant
    assert first["files"]
    assert main(["commit", root, "20990101000000000"]) == 1
    assert "commits() lists those" in capsys.readouterr().err


def test_a_state_of_the_past_has_its_own_files(root: str, capsys: Output) -> None:
    table = pyhudi.Table(root)
    first = table.commits()[0].instant
    assert told(capsys, "files", root, "--as-of", first) == table.files(first).records()
    changes = told(capsys, "diff", root, first)
    assert changes == table.diff(first).records()
    assert changes[0]["files_removed"] == changes[0]["files_added"] == 1
    assert told(capsys, "diff", root, first, first) == []
    assert main(["diff", root, first, first]) == 0
    assert capsys.readouterr().out == "The two states have the same files.\n"


def test_a_pending_write_is_no_last_commit(tmp_path: Path, capsys: Output) -> None:
    root = str(BY_NAME[FAILED].unzip(tmp_path))
    table = pyhudi.Table(root)
    assert table.history()[-1].state is not State.COMPLETED
    assert table.commits()[-1].state is State.COMPLETED
    assert table.commit().entry == table.commits()[-1]
    assert f"last commit     {table.commits()[-1].instant}" in repr(table)
    (found,) = table.check()
    assert found.severity is Severity.NOTE
    assert found.about == table.history()[-1].instant
    assert main(["check", root]) == 0, "nothing is lost"
    assert "pyhudi clean --failed-writes" in capsys.readouterr().out


def test_a_lost_file_is_found_and_ends_with_1(root: str, capsys: Output) -> None:
    gone = pyhudi.Table(root).files()[0]
    (Path(root) / gone.path).unlink()
    assert main(["check", root]) == 1
    assert gone.file_id in capsys.readouterr().out


def test_a_file_that_somebody_replaced_is_found_when_files_are_read(
    root: str, capsys: Output
) -> None:
    file = Path(root) / pyhudi.Table(root).files()[0].path
    file.write_bytes(b"x" * file.stat().st_size)
    assert main(["check", root]) == 0, "its size is as recorded"
    assert main(["check", root, "--read-files"]) == 1
    assert "cannot be read" in capsys.readouterr().out


def test_a_commit_that_cannot_be_read_is_found(root: str, capsys: Output) -> None:
    (commit, *_) = sorted((Path(root) / ".hoodie" / "timeline").glob("*.commit"))
    commit.write_bytes(b"broken")
    assert main(["check", root]) == 1
    assert commit.name[:17] in capsys.readouterr().out


def test_the_settings_of_a_named_spark_are_printed(capsys: Output) -> None:
    settings = told(capsys, "conf", "--spark", "4.0.1")
    assert settings["spark.jars"].endswith("pyhudi-spark-4.0_2.13.jar")


def test_history_and_the_tables_history_are_one_kind_of_list(root: str) -> None:
    assert pyhudi.history(root) == pyhudi.Table(root).history()
    assert type(pyhudi.history(root)) is type(pyhudi.Table(root).history())


def test_why_tells_the_life_of_a_key(root: str, capsys: Output) -> None:
    found = told(capsys, "why", root, "2")
    assert found == pyhudi.why(root, "2").records()
    assert [each["what"] for each in found] == ["inserted", "updated", "replaced", "now"]
    assert len(told(capsys, "why", root, "3", "--carried")) > len(told(capsys, "why", root, "3"))
    assert main(["why", root, "nobody", "--partition", "2024-01-01"]) == 0
    assert "Looked in the partition '2024-01-01'" in capsys.readouterr().out


def test_health_is_a_table_with_a_level_on_each_line(root: str, capsys: Output) -> None:
    found = told(capsys, "health", root)
    assert [each["measure"] for each in found] == [e.measure for e in pyhudi.health(root)]
    assert {each["level"] for each in found} == {"ok"}
    (Path(root) / ".hoodie" / "lock").write_bytes(b"")
    assert main(["health", root, "--conf", "hoodie.parquet.small.file.limit=0"]) == 0
    shown = capsys.readouterr().out
    assert "another program" in shown
    assert "0 of 4 base files" in shown
