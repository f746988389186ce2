"""A dbt project on pyhudi, built twice: dbt-spark's own statements, and what Apache Hudi reads.

The project is integration/dbt. Between the two builds the rows of its source change, and a column
is added to them. ``make dbt`` installs dbt into an environment of its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.lake import read_by_ids
from integration.peers import SparkPeer
from tests.servers.hive_metastore import HiveMetastore
from tests.servers.process import BRIEF_SPARK

REPO = Path(__file__).parents[1]
PROJECT = REPO / "integration" / "dbt"
PAGE = REPO / "docs" / "dbt.md"
DBT = REPO / ".venv-dbt" / "bin"
BUILD_S = 400
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}

FARES = [
    (1, "Oslo", 10.5, None), (2, "Lima", 22.0, 0.5), (3, "Lima", 30.0, None), (4, "Rome", 40.0, 1.5)
]  # fmt: skip
DAYS = [
    ({"date": "2026-01-01"}, 2, 30.5), ({"date": "2026-01-02"}, 1, 30.0),
    ({"date": "2026-01-03"}, 1, 40.0),
]  # fmt: skip
VISITS = [("Lima", 2), ("Lima", 2), ("Lima", 3), ("Oslo", 1), ("Rome", 4)]
RIDERS = [("Ann", 1), ("Bo", 1), ("Cy", 1), ("Di", 1)]
#: each version of a ride, with whether it is the current one
STATES = [(1, 10.5, True), (2, 20.0, False), (2, 22.0, True), (3, 30.0, False), (4, 40.0, True)]
#: where rides that are gone stay as they were
CHECKED = [(ride, fare, now or ride == 3) for ride, fare, now in STATES]


@dataclass(frozen=True)
class Project:
    """A copy of the project, and the session that dbt works in."""

    folder: Path
    settings: Mapping[str, str]

    def build(self, *arguments: str) -> dict[str, str]:
        """Run ``dbt build``; the outcome of each of its nodes by name."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK_"))}
        environment = {
            **kept, **BRIEF_SPARK, "SPARK_CONF_DIR": str(self._conf()),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }  # fmt: skip
        done = subprocess.run(
            [str(DBT / "dbt"), "--no-use-colors", "build", "--profiles-dir", ".", *arguments],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=BUILD_S,
        )  # fmt: skip
        found = json.loads((self.folder / "target" / "run_results.json").read_text("utf-8"))
        outcomes = {one["unique_id"].split(".")[2]: one["status"] for one in found["results"]}
        assert set(outcomes.values()) <= {"success", "pass"}, done.stdout[-3000:] + done.stderr
        return outcomes

    def _conf(self) -> Path:
        """The folder of the session's settings, made as docs/dbt.md says."""
        conf = self.folder / "conf"
        conf.mkdir(exist_ok=True)
        told = subprocess.run(
            [str(DBT / "pyhudi"), "conf"], capture_output=True, text=True, check=True
        )
        given = "".join(f"{key} {value}\n" for key, value in self.settings.items())
        (conf / "spark-defaults.conf").write_text(told.stdout + given)
        return conf

    def rows(self, peer: SparkPeer, table: str, columns: str) -> list[tuple[Any, ...]]:
        """What another engine reads of a table."""
        found = peer.read(self.folder / "lake" / "rides.db" / table).rows
        names = columns.split()
        return sorted((tuple(row[name] for name in names) for row in found), key=str)

    def versions(self, peer: SparkPeer, table: str) -> list[tuple[Any, ...]]:
        """The versions in a snapshot, and whether each is the current one."""
        found = self.rows(peer, table, "ride fare dbt_valid_to")
        return sorted((ride, fare, until is None) for ride, fare, until in found)


@pytest.fixture(params=["metastore", pytest.param("embedded", marks=pytest.mark.matrix)])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    if not (DBT / "dbt").exists():
        pytest.skip("dbt is not installed: make dbt")
    folder = Path(shutil.copytree(PROJECT, tmp_path / "rides"))
    settings = {**SETTINGS, "spark.sql.warehouse.dir": f"{folder}/lake"}
    if request.param == "metastore":
        settings["spark.hadoop.hive.metastore.uris"] = request.getfixturevalue("metastore").uri
    return Project(folder, settings)


def test_a_project_is_built_twice_and_apache_hudi_reads_its_tables(
    project: Project, peers: Callable[[str], SparkPeer], request: pytest.FixtureRequest
) -> None:
    hudi = peers("hudi-1.2.0")
    first = project.build()
    assert len(first) == 10
    assert project.rows(hudi, "fares", "ride note") == [(1, "first"), (2, "first"), (3, "first")]

    shutil.copy(project.folder / "later" / "trips.csv", project.folder / "seeds")
    assert project.build() == first
    read_by_ids(hudi, request)
    assert project.rows(hudi, "fares", "ride city fare tip") == FARES
    assert project.rows(hudi, "days", "day rides fares") == DAYS
    assert project.rows(hudi, "visits", "city ride") == VISITS
    assert project.rows(hudi, "riders", "rider rides") == RIDERS
    assert project.versions(hudi, "trip_states") == STATES
    assert project.versions(hudi, "trip_fares") == CHECKED

    if "metastore" in request.node.name:
        known: HiveMetastore = request.getfixturevalue("metastore")
        with known.client() as client:
            days = [one.values for one in client.get_partitions("rides", "days", -1)]
            fares = client.get_table("rides", "fares")
        assert sorted(days) == [[day["date"]] for day, *_ in DAYS]
        assert fares.parameters["spark.sql.sources.provider"] == "hudi"
        assert fares.parameters["comment"] == "a ride's newest fare"
        assert {c.name: c.comment for c in fares.sd.cols}["ride"] == "the ride's number"


def test_the_page_shows_what_the_project_has() -> None:
    files = [path.read_text("utf-8") for path in PROJECT.rglob("*") if path.is_file()]
    shown = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(shown) >= 5
    assert [each for each in shown if not any(each in file for file in files)] == []
