"""Apache Hudi's keys that are not options here, so that scripts that set them still run.

``hudi_keys.txt`` has each key by its exact name: a misspelt one is not taken for Hudi's. They
are those that the classes of the Spark bundles of Hudi 1.2.0 and 0.15.0 and of hudi-aws name
(``integration/test_hudi_keys.py``). A key in neither the option table nor here is a mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

# Keys for which pyhudi supports one value. Another value is an error if it would change rows
# (True), and a warning if the rows are the same without it (False).
FIXED: Final[Mapping[str, tuple[str, bool]]] = {
    "hoodie.populate.meta.fields": ("true", True),
    "hoodie.datasource.write.drop.partition.columns": ("false", True),
    "hoodie.datasource.write.slash.separated.date.partitioning": ("false", True),
    "hoodie.table.base.file.format": ("parquet", True),
    "hoodie.base.file.format": ("parquet", True),
    "hoodie.table.multiple.base.file.formats.enable": ("false", True),
    "hoodie.table.format": ("native", True),
    "hoodie.index.bucket.engine": ("simple", True),
    "hoodie.bucket.index.partition.expressions": ("", True),
    "hoodie.merge.allow.duplicate.on.inserts": ("true", True),
    "hoodie.payload.delete.condition": ("", True),
    "hoodie.precommit.validators": ("", True),
    "hoodie.prewrite.validators": ("", True),
    "hoodie.index.class": ("", True),
    "hoodie.static.overwrite.partition.paths": ("", True),
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled": ("false", True),
    "hoodie.keygen.datetime.parser.class": (
        "org.apache.hudi.keygen.parser.hoodiedatetimeparser",
        True,
    ),
    "hoodie.keygen.timebased.input.dateformat.list.delimiter.regex": (",", True),
    "hoodie.write.merge.handle.class": ("org.apache.hudi.io.filegroupreaderbasedmergehandle", True),
    "hoodie.write.concat.handle.class": ("org.apache.hudi.io.hoodieconcathandle", True),
    "hoodie.write.commit.callback.class": (
        "org.apache.hudi.callback.impl.hoodiewritecommithttpcallback",
        True,
    ),
    "hoodie.combine.before.delete": ("true", False),
    "hoodie.metadata.enable": ("false", False),
    "hoodie.write.auto.upgrade": ("false", False),
    "hoodie.datasource.hive_sync.enable": ("false", False),
    "hoodie.datasource.meta.sync.enable": ("false", False),
}

_DELETES: Final = (
    "To delete rows by a column, set _hoodie_is_deleted in the input to its condition."
)
_VALIDATORS: Final = "Check the rows before the write: nothing would check them here."

# What to do instead, where a key of FIXED has a counterpart here.
INSTEAD: Final[Mapping[str, str]] = {
    "hoodie.merge.allow.duplicate.on.inserts": "To keep one row of a key use operation upsert, or "
    "set hoodie.datasource.insert.dup.policy to drop or fail.",
    "hoodie.payload.delete.condition": _DELETES,
    "hoodie.precommit.validators": _VALIDATORS,
    "hoodie.prewrite.validators": _VALIDATORS,
    "hoodie.static.overwrite.partition.paths": "Name the partitions in the statement: INSERT "
    "OVERWRITE t PARTITION (...).",
    "hoodie.write.commit.callback.class": "pyhudi.on_commit calls a function of the program.",
    "hoodie.bucket.index.partition.expressions": "All partitions have the number of buckets that "
    "hoodie.bucket.index.num.buckets says.",
}

# Families of settings for merges: any key of them that is no option is an error in a write.
UNSERVED_FAMILIES: Final[tuple[str, ...]] = ("hoodie.record.merge.property.",)

# Options of reads that ask for other rows than a snapshot has.
UNSERVED_READS: Final = frozenset(
    "hoodie.datasource.read." + name for name in ("incr.filters", "incr.path.glob", "paths")
)

# Keys by which a read of Hudi's leaves logs out, and the one value that pyhudi supports.
FIXED_READS: Final[Mapping[str, str]] = {
    "hoodie.datasource.merge.type": "payload_combine",
    "hoodie.realtime.merge.skip": "false",
}

# Families whose keys are made of a prefix and a name that others choose: sources, mergers, other
# bundles. Only here an unknown name is taken for Hudi's.
OPEN_FAMILIES: Final[tuple[str, ...]] = (
    "hoodie.datasource.meta.sync.glue.",
    "hoodie.deltastreamer.",
    "hoodie.gcp.bigquery.sync.",
    "hoodie.meta.sync.datahub.",
    "hoodie.streamer.",
)


@cache
def without_effect() -> Mapping[str, str]:
    """Hudi's keys that have no effect here, as Hudi spells them, by their lower-case form."""
    text = files("pyhudi").joinpath("hudi_keys.txt").read_text(encoding="utf-8")
    return {key.lower(): key for key in text.split()}


def has_no_effect(key: str) -> bool:
    """Whether the lower-case ``key`` is a Hudi key that pyhudi knows and ignores."""
    return key.startswith(OPEN_FAMILIES) or key in without_effect()
