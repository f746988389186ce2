"""Other readers and writers of Hudi tables, driven as long-lived processes.

Every peer answers ``read`` with the same canonical rows (see ``canonical``), so that two peers
agree exactly when their answers are equal as Python values.
"""

from integration.peers.canonical import Answer, difference, plain
from integration.peers.hudi_rs import HudiRs
from integration.peers.process import LineProcess, PeerError
from integration.peers.spark import SparkPeer, apache_hudi, iceberg, pyhudi_on_spark
from integration.peers.tables import TableFacts, table_facts, writer_options

__all__ = [
    "Answer",
    "HudiRs",
    "LineProcess",
    "PeerError",
    "SparkPeer",
    "TableFacts",
    "apache_hudi",
    "difference",
    "iceberg",
    "plain",
    "pyhudi_on_spark",
    "table_facts",
    "writer_options",
]
