from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

import pyhudi
from pyhudi import __version__
from pyhudi.cli.main import main
from pyhudi.clock import SystemClock
from pyhudi.format.instants import State
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.open import open_storage
from pyhudi.timeline.history import history
from pyhudi.timeline.table import open_table
from tests.golden_tables import BY_NAME
from tests.s3_server import s3_server

Output = pytest.CaptureFixture[str]


def test_jars_prints_the_jar_of_the_installed_spark(capsys: Output) -> None:
    assert main(["jars"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert Path(line).is_file()
    assert f"spark-{'.'.join(pyspark.__version__.split('.')[:2])}_" in line


def test_jars_prints_the_jar_of_a_named_spark(capsys: Output) -> None:
    assert main(["jars", "--spark", "4.0.9"]) == 0
    assert capsys.readouterr().out.strip().endswith("pyhudi-spark-4.0_2.13.jar")


def test_a_spark_without_a_jar_is_an_error_in_one_line(capsys: Output) -> None:
    assert main(["jars", "--spark", "3.4.1"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("[SETUP_ERROR] pyhudi has no jar for Spark 3.4.1")
    assert output.err.count("\n") == 1


def test_conf_prints_the_lines_of_a_properties_file(capsys: Output) -> None:
    assert main(["conf"]) == 0
    settings = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert settings["spark.sql.catalog.spark_catalog"] == "io.pyhudi.HudiSessionCatalog"
    assert Path(settings["spark.jars"]).is_file()


def test_conf_prints_the_same_as_arguments(capsys: Output) -> None:
    main(["conf"])
    lines = capsys.readouterr().out.splitlines()
    main(["conf", "--arguments"])
    words = capsys.readouterr().out.split()
    assert words[::2] == ["--conf"] * len(lines)
    assert [word.replace("=", " ", 1) for word in words[1::2]] == lines


def test_history_of_a_table_is_printed_as_a_table(tmp_path: Path, capsys: Output) -> None:
    root = BY_NAME["h120_v9-cow_clean_archive"].unzip(tmp_path)
    assert main(["history", str(root)]) == 0
    active = capsys.readouterr().out.splitlines()
    assert active[0].split()[:4] == ["instant", "action", "state", "completed"]
    assert [line.split()[1] for line in active[2:]] == ["clean", "commit"] * 3 + ["clean"]
    assert main(["history", "--archived", str(root)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(active) + 9


def test_history_takes_a_path_below_the_working_directory(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = BY_NAME["h120_v9-cow_part"].unzip(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["history", root.name]) == 0
    assert "completed" in capsys.readouterr().out


def test_history_of_no_table_is_an_error_in_one_line(tmp_path: Path, capsys: Output) -> None:
    assert main(["history", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(
        f"[TABLE_NOT_FOUND] There is no Hudi table at {tmp_path}"
    )


@pytest.mark.parametrize("setting", ["fs.s3a.endpoint", "endpoint=http://x", "=1"])
def test_a_setting_that_is_not_of_the_storage_is_refused(setting: str, capsys: Output) -> None:
    assert main(["history", "/x", "--conf", setting]) == 1
    assert "fs.s3a.KEY=VALUE" in capsys.readouterr().err


def test_clean_tells_and_deletes_old_versions(tmp_path: Path, capsys: Output) -> None:
    root = BY_NAME["h120_v9-cow_part"].unzip(tmp_path)
    keep = ["--conf", "hoodie.clean.policy=KEEP_LATEST_FILE_VERSIONS"]
    keep += ["--conf", "hoodie.clean.fileversions.retained=1"]
    before = set(root.rglob("*.parquet"))

    assert main(["clean", "--dry-run", str(root), *keep]) == 0
    told = capsys.readouterr().out
    assert set(root.rglob("*.parquet")) == before
    assert "would be deleted" in told
    assert main(["clean", "--json", str(root), *keep]) == 0
    done = json.loads(capsys.readouterr().out)

    gone = {root / each["partition"] / each["file"] for each in done if each["fate"] == "deleted"}
    assert gone
    assert set(root.rglob("*.parquet")) == before - gone
    assert main(["clean", str(root), *keep]) == 0
    assert "has no old versions of files" in capsys.readouterr().out
    assert main(["clean", str(root), "--conf", "hoodie.clean.policy=x"]) == 1
    assert "hoodie.clean.policy" in capsys.readouterr().err


def test_cluster_tells_and_puts_small_files_together(tmp_path: Path, capsys: Output) -> None:
    root = BY_NAME["h120_v9-cow_part"].unzip(tmp_path)
    sort = ["--conf", "hoodie.clustering.plan.strategy.sort.columns=id"]
    every = ["--conf", "hoodie.clustering.plan.strategy.class=ALL"]

    assert main(["cluster", "--dry-run", str(root), *sort, *every]) == 0
    assert "would be clustered" in capsys.readouterr().out

    assert main(["cluster", "--json", str(root), *sort, *every]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["fate"] for each in found} == {"clustered"}
    assert main(["show", str(root)]) == 0


def test_compact_tells_plans_and_merges_logs(tmp_path: Path, capsys: Output) -> None:
    root = BY_NAME["h120_v9-mor_meta"].unzip(tmp_path)
    assert main(["compact", "--dry-run", str(root)]) == 0
    assert "would be compacted" in capsys.readouterr().out
    assert main(["compact", "--op", "schedule", "--json", "--max-files", "3", str(root)]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert sorted(each["fate"] for each in planned) == ["left", "left", "planned"]
    (time,) = {each["compaction"] for each in planned} - {None}
    assert main(["compact", "--op", "run", "--instant", time, "--json", str(root)]) == 0
    assert [each["fate"] for each in json.loads(capsys.readouterr().out)] == ["compacted"]
    assert main(["services", "--only", "compact", "--json", str(root)]) == 0
    (turn,) = json.loads(capsys.readouterr().out)
    assert (turn["service"], turn["done"], turn["left"], turn["error"]) == ("compact", 2, 0, "")
    assert main(["compact", str(root)]) == 0
    assert "has no log files to compact" in capsys.readouterr().out


def test_archive_tells_and_moves_old_instants(tmp_path: Path, capsys: Output) -> None:
    root = BY_NAME["h120_v9-cow_clean_archive"].unzip(tmp_path)
    keep = ["--conf", "hoodie.keep.min.commits=2", "--conf", "hoodie.keep.max.commits=2"]
    keep += ["--conf", "hoodie.clean.commits.retained=1"]
    timeline = root / ".hoodie" / "timeline"
    before = set(timeline.iterdir())

    assert main(["archive", "--dry-run", str(root), *keep]) == 0
    assert "would be archived" in capsys.readouterr().out
    assert set(timeline.iterdir()) == before
    assert main(["archive", "--json", str(root), *keep]) == 0
    done = json.loads(capsys.readouterr().out)

    gone = {each["instant"] for each in done if each["fate"] == "archived"}
    assert gone
    assert {file for file in before if file.name[:17] in gone} == before - set(timeline.iterdir())
    assert main(["archive", str(root), "--conf", "hoodie.keep.min.commits=31"]) == 1
    assert "hoodie.keep.min.commits" in capsys.readouterr().err


def test_clean_rolls_failed_writes_back_and_prints_them(tmp_path: Path, capsys: Output) -> None:
    root = pending_table(tmp_path, silent_s=600)

    assert main(["clean", "--failed-writes", str(root)]) == 0

    head, _, line = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["instant", "action", "state"]
    assert "rolled back" in line
    assert line.split()[-1] == "1"
    assert [e.instant for e in pyhudi.history(str(root)) if e.state is not State.COMPLETED] == []
    assert main(["clean", "--failed-writes", str(root)]) == 0
    assert capsys.readouterr().out == f"Nothing is pending in the table at {root}.\n"


def test_a_dry_run_rolls_nothing_back(tmp_path: Path, capsys: Output) -> None:
    root = pending_table(tmp_path, silent_s=60)
    before = sorted(root.rglob("*"))
    assert main(["clean", "--failed-writes", "--dry-run", str(root)]) == 0
    assert "alive: left alone: its last sign of life is" in capsys.readouterr().out
    assert main(["clean", "--failed-writes", "--dry-run", "--force", str(root)]) == 0
    told = capsys.readouterr()
    assert "would be rolled back: by force" in told.out
    assert told.err == ""
    assert sorted(root.rglob("*")) == before
    assert main(["clean", "--failed-writes", "--max-files", "1", str(root)]) == 1
    assert "do not bound --failed-writes" in capsys.readouterr().err


def test_clean_names_writers_that_may_live_and_leaves_them(tmp_path: Path, capsys: Output) -> None:
    root = pending_table(tmp_path, silent_s=60)
    before = sorted(path for path in root.rglob("*"))

    assert main(["clean", "--failed-writes", str(root)]) == 0
    assert "alive: left alone" in capsys.readouterr().out
    assert sorted(path for path in root.rglob("*")) == before

    sooner = ["--conf", "hoodie.client.heartbeat.interval_in_ms=10000"]
    assert main(["clean", "--failed-writes", str(root), *sooner]) == 0
    assert "rolled back" in capsys.readouterr().out


def test_clean_by_force_counts_down_and_rolls_back_what_may_live(
    tmp_path: Path, capsys: Output
) -> None:
    root = pending_table(tmp_path, silent_s=60)
    command = ["clean", "--failed-writes", "--force", str(root)]
    assert main([*command, "--countdown", "1"]) == 0
    told = capsys.readouterr()
    assert "rolled back" in told.out
    (pending,) = [line.split()[0] for line in told.out.splitlines()[2:]]
    assert told.err.startswith(f"The writers of {pending} may live.")
    assert told.err.splitlines()[1:] == ["1 ..."]
    assert main(command) == 0
    assert capsys.readouterr() == (f"Nothing is pending in the table at {root}.\n", "")


def test_an_interrupt_of_the_countdown_rolls_nothing_back(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = pending_table(tmp_path, silent_s=60)
    before = sorted(path for path in root.rglob("*"))

    def interrupted(clock: SystemClock, seconds: float) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(SystemClock, "sleep", interrupted)
    assert main(["clean", "--failed-writes", "--force", "--countdown", "60", str(root)]) == 1
    assert capsys.readouterr().out.startswith("Stopped: no write was rolled back by force.")
    assert sorted(path for path in root.rglob("*")) == before


def pending_table(folder: Path, silent_s: float) -> Path:
    """A table whose last writer was last heard of a while ago."""
    root = BY_NAME["h120_v9-cow_crash_direct.midfail"].unzip(folder)
    (pending,) = [e.instant for e in pyhudi.history(str(root)) if e.state is not State.COMPLETED]
    then = time.time() - silent_s
    for path in root.rglob(f"{pending}*"):
        os.utime(path, (then, then))
    return root


def test_clean_works_on_s3(tmp_path: Path, capsys: Output) -> None:
    with s3_server(tmp_path) as server:
        path = server.new_table("t")
        storage = open_storage(path, server.hadoop_options)
        for name, data in BY_NAME["h120_v9-cow_crash_direct.midfail"].files().items():
            storage.put_if_absent(name, data)
        conf = {**server.hadoop_options, "hoodie.clean.failed.writes.policy": "EAGER"}
        given = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]

        assert main(["clean", "--failed-writes", path, *given]) == 0

        assert "rolled back" in capsys.readouterr().out
        assert storage.walk(".hoodie/.temp") == []


def test_clean_does_not_touch_tables_that_pyhudi_cannot_write(
    tmp_path: Path, capsys: Output
) -> None:
    root = BY_NAME["h120_v9-mor_failed.midfail"].unzip(tmp_path)
    properties = root / ".hoodie" / "hoodie.properties"
    properties.write_text(
        properties.read_text("latin-1").replace("meta.fields=true", "meta.fields=false"), "latin-1"
    )
    assert main(["clean", "--failed-writes", str(root)]) == 1
    assert "tables without meta fields" in capsys.readouterr().err


def test_clean_undoes_a_failed_write_of_logs(tmp_path: Path, capsys: Output) -> None:
    golden = BY_NAME["h120_v9-mor_failed.midfail"]
    root = golden.unzip(tmp_path)
    pending = open_table(LocalStorage(str(root))).timeline().pending
    assert [instant.action.value for instant in pending] == ["deltacommit"]
    for file in root.rglob(f"{pending[0].time}*"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    assert main(["clean", "--failed-writes", str(root)]) == 0
    assert str(pending[0].time) in capsys.readouterr().out
    assert open_table(LocalStorage(str(root))).timeline().pending == ()
    assert not list(root.rglob(f"*{pending[0].time}*.log.*"))


def test_a_savepoint_is_made_and_deleted(tmp_path: Path, capsys: Output) -> None:
    root = BY_NAME["h120_v9-cow_part"].unzip(tmp_path)
    assert main(["savepoint", str(root), "--comment", "a backup"]) == 0
    told = capsys.readouterr().out
    assert "a backup" in told
    assert main(["savepoint", "--json", str(root)]) == 0
    (made,) = json.loads(capsys.readouterr().out)
    assert main(["delete-savepoint", str(root), made["instant"]]) == 0
    assert "has no savepoint any more" in capsys.readouterr().out
    assert main(["delete-savepoint", str(root), made["instant"]]) == 1
    assert "has no savepoint. The savepoints" in capsys.readouterr().err


def test_a_table_is_restored(tmp_path: Path, capsys: Output) -> None:
    root = BY_NAME["h120_v9-cow_part"].unzip(tmp_path)
    first, *_ = history(str(root))
    assert main(["restore", "--dry-run", str(root), first.instant]) == 0
    assert "would be undone" in capsys.readouterr().out
    assert main(["restore", "--json", "--fence", str(root), first.instant]) == 0
    undone = json.loads(capsys.readouterr().out)
    assert {each["fate"] for each in undone} == {"undone"}
    assert [each.instant for each in history(str(root)) if each.is_commit] == [first.instant]
    assert main(["restore", str(root), first.instant]) == 0
    assert "has no commit after" in capsys.readouterr().out
    assert main(["restore", str(root), "20200101000000000"]) == 1
    assert "is no completed commit" in capsys.readouterr().err


def test_clean_of_no_table_says_so(tmp_path: Path, capsys: Output) -> None:
    assert main(["clean", str(tmp_path)]) == 1
    assert "TABLE_NOT_FOUND" in capsys.readouterr().err


@pytest.mark.parametrize("setting", ["hoodie.nonsense=1", "spark.x=1", "fs.s3a.x"])
def test_clean_refuses_settings_that_it_does_not_know(
    setting: str, tmp_path: Path, capsys: Output
) -> None:
    root = BY_NAME["h120_v9-cow_part"].unzip(tmp_path)
    assert main(["clean", "--failed-writes", str(root), "--conf", setting]) == 1
    assert capsys.readouterr().err.startswith("[CONFIG_ERROR]")


def test_an_unknown_command_ends_with_status_2(capsys: Output) -> None:
    with pytest.raises(SystemExit) as end:
        main(["hstory"])
    assert end.value.code == 2


def test_the_version_is_the_packages(capsys: Output) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"pyhudi {__version__}\n"


def test_history_needs_neither_spark_nor_java(tmp_path: Path) -> None:
    """Nor pandas, which pyarrow imports for its first array of Python values, in a third of the
    time that such a command takes."""
    root = BY_NAME["h120_v9-cow_part"].unzip(tmp_path)
    code = (
        "import sys; sys.modules.update(pyspark=None, py4j=None, pandas=None); "
        "from pyhudi.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    python = [sys.executable, "-c", code]
    done = subprocess.run([*python, "history", root], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [*python, "clean", "--failed-writes", root], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    done = subprocess.run([*python, "jars"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("[SETUP_ERROR] PySpark is not installed")


def test_attach_without_pyspark_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules.update(pyspark=None)\n"
        "import pyhudi\n"
        "try: pyhudi.attach\n"
        "except pyhudi.errors.SetupError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("[SETUP_ERROR] The package pyspark is not installed"), done.stderr
