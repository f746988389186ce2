"""What a writer must know about a table that it did not make, read without pyhudi's own code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.s3_server import S3Server

_KEY_GENERATORS = {
    "SIMPLE": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "COMPLEX": "org.apache.hudi.keygen.ComplexKeyGenerator",
    "NON_PARTITION": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "TIMESTAMP": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    "CUSTOM": "org.apache.hudi.keygen.CustomKeyGenerator",
}


@dataclass(frozen=True, slots=True)
class S3Place:
    """A table on an S3 server, as far as a test treats it like a ``Path``."""

    uri: str
    server: S3Server

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> S3Place:
        return S3Place(f"{self.uri}/{name}", self.server)

    def read_text(self, encoding: str) -> str:
        """The file of this name."""
        with self.server.filesystem().open_input_stream(self.uri.removeprefix("s3a://")) as file:
            return bytes(file.read()).decode(encoding)


#: where a table is
Place: TypeAlias = Path | S3Place


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The lines of ``hoodie.properties`` that matter to a foreign writer."""

    name: str
    version: int
    record_key: str
    partition_path: str
    ordering: str
    key_generator: str
    hive_style: bool
    url_encode: bool


def read_properties(path: Place) -> dict[str, str]:
    """``hoodie.properties`` of the table at ``path``, backslash escapes undone."""
    found: dict[str, str] = {}
    for line in (path / ".hoodie" / "hoodie.properties").read_text("latin-1").splitlines():
        if line and line[0] not in "#!" and "=" in line:
            key, _, value = line.partition("=")
            found[_unescape(key)] = _unescape(value)
    return found


def _unescape(text: str) -> str:
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m.group(1), 16)), text)
    return re.sub(r"\\(.)", r"\1", text)


def table_facts(path: Place) -> TableFacts:
    """The facts of the table at ``path``."""
    found = read_properties(path)
    generator = found.get("hoodie.table.keygenerator.class") or _KEY_GENERATORS.get(
        found.get("hoodie.table.keygenerator.type", ""), ""
    )
    ordering = found.get("hoodie.table.ordering.fields") or found.get(
        "hoodie.table.precombine.field", ""
    )
    return TableFacts(
        name=found["hoodie.table.name"],
        version=int(found["hoodie.table.version"]),
        record_key=found.get("hoodie.table.recordkey.fields", ""),
        partition_path=found.get("hoodie.table.partition.fields", ""),
        ordering=ordering,
        key_generator=generator,
        hive_style=found.get("hoodie.datasource.write.hive_style_partitioning") == "true",
        url_encode=found.get("hoodie.datasource.write.partitionpath.urlencode") == "true",
    )


def writer_options(path: Place, operation: str = "upsert") -> dict[str, str]:
    """Options with which Apache Hudi writes into the table at ``path`` and leaves its version.

    Without the first two, Hudi 1.2.0 upgrades a table of version 6 or 8 on its first write
    (spec/versions.md V4).
    """
    facts = table_facts(path)
    options = {
        "hoodie.write.auto.upgrade": "false",
        "hoodie.write.table.version": str(facts.version),
        "hoodie.table.name": facts.name,
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.recordkey.field": facts.record_key,
        "hoodie.datasource.write.partitionpath.field": facts.partition_path,
        "hoodie.datasource.write.precombine.field": facts.ordering,
        "hoodie.datasource.write.keygenerator.class": facts.key_generator,
        "hoodie.datasource.write.hive_style_partitioning": str(facts.hive_style).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(facts.url_encode).lower(),
    }
    return {key: value for key, value in options.items() if value}
