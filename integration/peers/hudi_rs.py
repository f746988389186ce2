"""hudi-rs, the native reader of Hudi tables, in this process."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder

from integration.peers.canonical import Answer, from_arrow
from integration.peers.tables import Place
from tests.s3_server import ACCESS_KEY, SECRET_KEY, S3Server


class HudiRs:
    """Reads only. Options are Hudi's read options."""

    name = "hudi-rs"

    def __init__(self, s3: S3Server | None = None) -> None:
        """With ``s3`` it opens tables of that server."""
        self._storage = (
            {}
            if s3 is None
            else {
                "aws_access_key_id": ACCESS_KEY,
                "aws_secret_access_key": SECRET_KEY,
                "aws_region": "us-east-1",
                "aws_endpoint": s3.endpoint,
                "aws_allow_http": "true",
            }
        )

    def read(
        self,
        path: Place,
        options: Mapping[str, str] | None = None,
        as_of: str | None = None,
    ) -> Answer:
        """The snapshot of the table at ``path``, or its state as of an instant."""
        given = {**self._storage, **(options or {})}
        table = HudiTableBuilder.from_base_uri(str(path)).with_options(given).build()
        wanted = HudiReadOptions()
        if as_of is not None:
            wanted = wanted.with_as_of_timestamp(as_of)
        batches = table.read(wanted)
        if not batches:
            return from_arrow(table.get_schema_with_meta_fields().empty_table())
        return from_arrow(pa.Table.from_batches([pa.record_batch(b) for b in batches]))
