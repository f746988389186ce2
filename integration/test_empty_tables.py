"""Tables that CREATE TABLE of pyhudi made, opened by Apache Hudi before their first commit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from integration.peers import SparkPeer, apache_hudi, pyhudi_on_spark
from tests.s3_server import S3Server, s3_server

numbers = itertools.count()


def used_by_hudi(ours: SparkPeer, hudi: SparkPeer, place: str, version: int) -> None:
    """Apache Hudi opens, counts and fills a table at ``place`` that pyhudi has just created."""
    name, id_and_city = f"empty_{next(numbers)}", "select id, city from"
    ours.sql(
        f"create table pyhudi.`{place}` (id int, city string) partitioned by (city) "
        f"tblproperties (primaryKey = 'id', 'hoodie.write.table.version' = '{version}')"
    )
    assert ours.texts(f"select instant from pyhudi.`{place}`.history") == []
    hudi.sql(f"create table {name} using hudi location '{place}'")
    assert hudi.texts(f"select count(*) from {name}") == [["0"]]
    assert hudi.texts(f"call show_archived_commits(table => '{name}')") == []
    hudi.sql(f"insert into {name} values (1, 'a'), (2, 'b')")
    rows = [["1", "a"], ["2", "b"]]
    assert hudi.texts(f"{id_and_city} {name} order by id") == rows
    assert ours.texts(f"{id_and_city} pyhudi.`{place}` order by id") == rows


@pytest.mark.parametrize("version", [6, 8, 9])
def test_apache_hudi_uses_a_table_without_a_commit(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    used_by_hudi(peers("pyhudi"), peers("hudi-1.2.0"), str(tmp_path / "t"), version)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The server that keeps the tables of this module."""
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


# On S3 a session needs Hadoop's S3 client, a download of 280 MB.
@pytest.mark.matrix
def test_apache_hudi_uses_a_table_without_a_commit_on_s3(server: S3Server) -> None:
    with closing(pyhudi_on_spark(s3=server)) as ours, closing(apache_hudi("1.2.0", server)) as hudi:
        for version in (6, 8, 9):
            used_by_hudi(ours, hudi, server.new_table(), version)
