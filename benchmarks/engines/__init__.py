"""The engines that are compared, by name."""

from __future__ import annotations

from benchmarks.engines.base import Engine
from benchmarks.engines.change_reads import FEEDS
from benchmarks.engines.delta import Delta
from benchmarks.engines.hudi import ApacheHudi, ApacheHudiWithoutMetadata
from benchmarks.engines.iceberg import Iceberg
from benchmarks.engines.merge_on_read import LOG_TABLES
from benchmarks.engines.parquet import PlainParquet
from benchmarks.engines.pyhudi import Pyhudi
from benchmarks.engines.streams import STREAMS

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (PlainParquet, Pyhudi, ApacheHudi, ApacheHudiWithoutMetadata, Delta, Iceberg)
}
ENGINES |= FEEDS | STREAMS | LOG_TABLES

__all__ = ["ENGINES", "Engine"]
