"""The schema in which each data file was written.

A file's commit declares it; for files of archived commits one footer per instant is read. In a
table with a schema history it is put in the table's names and order, by the columns' ids.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.application.runtime import Runtime
from pyhudi.errors import TableCorrupt
from pyhudi.format.instants import InstantTime
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.slices.files import BaseFile
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.promises import vanished
from pyhudi.timeline.schema import schema_of
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.table import Table


class FileSchemas:
    """Numbers the distinct schemas of a set of files; ``found`` lists them by number."""

    def __init__(
        self,
        runtime: Runtime,
        table: Table,
        timeline: Timeline,
        history: SchemaHistory,
    ) -> None:
        self._runtime = runtime
        self._table = table
        self._timeline = timeline
        self.history = history
        self._commits = {i.time: i for i in timeline.commits}
        self._by_text: dict[str, int] = {}
        self.found: list[SparkSchema] = []

    def numbers(self, files: Sequence[BaseFile], current: SparkSchema) -> list[int]:
        """For each file the number of its schema; ``found`` has ``current`` even without files."""
        by_instant: dict[InstantTime, int] = {}
        numbers = []
        for file in files:
            if file.instant not in by_instant:
                held = self.of_file(file.instant, file.path, current)
                by_instant[file.instant] = self._number(held)
            numbers.append(by_instant[file.instant])
        if not self.found:
            self._number(current)
        return numbers

    def of_file(self, instant: InstantTime, path: str, current: SparkSchema) -> SparkSchema:
        """The columns of ``current`` that a file holds; without ids, the file's own columns."""
        commit = self._commits.get(instant)
        declared = schema_of(self._table, self._timeline, commit) if commit else None
        own = declared if declared is not None else self._of_footer(path)
        return self.history.held(current, instant, own)

    def _number(self, schema: SparkSchema) -> int:
        text = json.dumps(schema.json(), sort_keys=True)
        if text not in self._by_text:
            self._by_text[text] = len(self.found)
            self.found.append(schema)
        return self._by_text[text]

    def of_footer(self, files: Sequence[BaseFile]) -> SparkSchema:
        """The schema in the newest file's footer; ``TableCorrupt`` if there is no file."""
        if not files:
            return SparkSchema()
        return self._of_footer(max(files, key=lambda f: f.instant).path)

    def _of_footer(self, path: str) -> SparkSchema:
        filesystem, root = self._runtime.filesystem(self._table.storage.root)
        try:
            with filesystem.open().open_input_file(f"{root}/{path}") as source:
                schema = pq.read_schema(source)
        except FileNotFoundError as e:
            raise vanished(self._table.storage, path) from e
        except (OSError, pa.ArrowInvalid) as e:
            raise TableCorrupt(
                f"The footer of {path} cannot be read: {e}.",
                path=path,
                rule="spec/data_files.md D2",
            ) from e
        return SparkSchema.of_arrow(schema)
