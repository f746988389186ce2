"""hudi-rs, the native reader of Hudi tables, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder

from integration.peers.canonical import Answer, from_arrow


class HudiRs:
    """Reads only. Options are Hudi's read options."""

    name = "hudi-rs"

    def read(
        self,
        path: Path,
        options: Mapping[str, str] | None = None,
        as_of: str | None = None,
    ) -> Answer:
        """The snapshot of the table at ``path``, or its state as of an instant."""
        table = HudiTableBuilder.from_base_uri(str(path)).with_options(dict(options or {})).build()
        wanted = HudiReadOptions()
        if as_of is not None:
            wanted = wanted.with_as_of_timestamp(as_of)
        batches = table.read(wanted)
        if not batches:
            return from_arrow(table.get_schema_with_meta_fields().empty_table())
        return from_arrow(pa.Table.from_batches([pa.record_batch(b) for b in batches]))
