"""Cross-reads once more with the tables on an S3 server, which Spark reaches as ``s3a://``.

``make integration`` plays them on MinIO (on moto where there is no Go to build it); ``make test``
leaves them out, since Hadoop's S3 client alone is a download of 280 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from integration.matrix.script import all_cells, play
from integration.peers import HudiRs, SparkPeer, apache_hudi, pyhudi_on_spark
from integration.peers.tables import S3Place
from tests.s3_server import S3Server, s3_server

CELLS = ("v6-simple-bloom", "v8-composite-simple", "v9-multi-bucket", "v9-keyless-simple")

pytestmark = pytest.mark.matrix


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The server that keeps the tables of this module."""
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="module")
def s3_peers(server: S3Server) -> Iterator[Callable[[str], SparkPeer]]:
    """``s3_peers(name)`` as ``peers`` in conftest, each of them a client of ``server``."""
    running: dict[str, SparkPeer] = {}

    def get(name: str) -> SparkPeer:
        if name not in running:
            version = name.removeprefix("hudi-")
            running[name] = (
                pyhudi_on_spark(s3=server) if name == "pyhudi" else apache_hudi(version, server)
            )
        return running[name]

    yield get
    for peer in running.values():
        peer.close()


@pytest.mark.parametrize("name", CELLS)
def test_all_readers_return_the_rows_of_the_model_on_s3_too(
    name: str, server: S3Server, s3_peers: Callable[[str], SparkPeer]
) -> None:
    cell = next(cell for cell in all_cells() if cell.name == name)
    place = S3Place(server.new_table(name), server)
    play(cell, "pyhudi", place, s3_peers, HudiRs(server), lambda step, outcome: None)
