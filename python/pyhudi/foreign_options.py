"""Options of other formats and of Spark's file sources: what to do instead.

Their users try them here. To ignore them would cost rows: Delta's ``replaceWhere`` replaces a part
of the table, but mode overwrite without it replaces all. An option whose value asks for what pyhudi
does anyhow passes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyhudi.errors import ConfigError

_REPLACE: Final = (
    "To replace whole partitions use mode overwrite with the option partitionOverwriteMode=dynamic,"
    " or df.writeTo(table).overwrite(condition)"
)
_COLUMNS: Final = "To change columns use ALTER TABLE, or write to a new table"
_REDEFINE: Final = (
    "saveAsTable in mode overwrite and df.writeTo(table).createOrReplace() replace the columns "
    "with the rows, without an option; to change some of them use ALTER TABLE"
)
_BATCH: Final = "In foreachBatch each batch is written once without an option"
_BRANCH: Final = "A Hudi table has no branches: use a separate table"
_JUDGED: Final = "hoodie.write.concurrency.mode says how the writers of a table share it"
_TRAVEL: Final = "A write always goes to the newest state: as.of.instant is an option of reads"

#: letters of the option -> the one value that pyhudi supports, and what to do instead
_FOREIGN: Final[Mapping[str, tuple[str | None, str]]] = {
    # Delta
    "replacewhere": (None, _REPLACE),
    "replaceon": (None, _REPLACE),
    "replaceusing": (None, _REPLACE),
    "overwriteschema": ("false", _REDEFINE),
    "mergeschema": ("true", _COLUMNS),
    "txnappid": (None, _BATCH),
    "txnversion": (None, _BATCH),
    # Iceberg
    "overwritemode": (None, _REPLACE),
    "dynamicpartitionoverwrite": (None, _REPLACE),  # Paimon
    "branch": ("main", _BRANCH),
    "isolationlevel": (None, _JUDGED),
    "validatefromsnapshotid": (None, _JUDGED),
    # time travel, which is of reads
    **dict.fromkeys(
        ("asofinstant", "timestampasof", "versionasof", "asoftimestamp", "snapshotid"),
        (None, _TRAVEL),
    ),
}


_CHANGES: Final = (
    "For changed rows set hoodie.datasource.query.type to incremental, and to follow what was "
    "committed use pyhudi.commits"
)
_FILES: Final = "A read takes a table's files whatever their names and times: filter the rows"
_LOST: Final = "A lost or broken file of a table is an error, never fewer rows"
_FOREIGN_READS: Final[Mapping[str, tuple[str | None, str]]] = {
    # Delta
    "readchangefeed": ("false", _CHANGES),
    "readchangedata": ("false", _CHANGES),
    "startingversion": (None, _CHANGES),
    "startingtimestamp": (None, _CHANGES),
    "endingversion": (None, _CHANGES),
    "endingtimestamp": (None, _CHANGES),
    # Iceberg
    "startsnapshotid": (None, _CHANGES),
    "endsnapshotid": (None, _CHANGES),
    "branch": ("main", _BRANCH),
    "tag": (None, "For time travel set as.of.instant to an instant or a time"),
    # Spark's file sources
    "pathglobfilter": (None, _FILES),
    "modifiedbefore": (None, _FILES),
    "modifiedafter": (None, _FILES),
    "ignoremissingfiles": ("false", _LOST),
    "ignorecorruptfiles": ("false", _LOST),
}

_SIZE: Final = "The size of files is hoodie.parquet.max.file.size, in bytes"
_CODEC: Final = "The codec of base files is hoodie.parquet.compression.codec"
_TYPES: Final = "A Hudi table knows its columns and their types"
_FOLDER: Final = "The path is the table's own folder; filter its partition columns"
_CALENDAR: Final = "Dates and times are of the proleptic Gregorian calendar"

#: options of Spark's file sources, and others that change no row; for reads and writes
_MEANINGLESS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("compression", "codec", "parquetcompression", "writeparquetcompressioncodec"),
                    _CODEC),
    **dict.fromkeys(("maxrecordsperfile", "targetfilesizebytes", "targetfilesize", "maxfilesize",
                     "writetargetfilesizebytes", "parquetblocksize"), _SIZE),
    **dict.fromkeys(("header", "inferschema", "sep", "delimiter", "quote", "escape", "multiline",
                     "nullvalue", "encoding", "charset", "linesep", "dateformat",
                     "timestampformat", "timestampntzformat", "columnnameofcorruptrecord",
                     "ignoreleadingwhitespace", "ignoretrailingwhitespace", "emptyvalue",
                     "enforceschema", "primitivesasstring", "allowcomments",
                     "fetchsize", "dbtable", "rowtag"), _TYPES),
    **dict.fromkeys(("basepath", "recursivefilelookup", "partitioncolumn", "numpartitions"),
                    _FOLDER),
    **dict.fromkeys(("datetimerebasemode", "intrebasemode"), _CALENDAR),
    "optimizewrite": "hoodie.bulkinsert.sort.mode and hoodie.parquet.small.file.limit arrange rows",
    "usermetadata": "Options that begin with _ go to the commit's metadata, as in _reason",
    "checkpointlocation": "It is an option of df.writeStream, not of df.write",
    "mode": "The mode of a write is a method of its own: df.write.mode('append')",
    "comment": "A table's comment is that of CREATE TABLE or COMMENT ON TABLE",
    "datachange": "Each write of rows is a change of the table",
}  # fmt: skip


def foreign_write(key: str, text: str) -> bool:
    """Whether another format's option asks for what pyhudi does anyhow; False for unknown names.

    ``ConfigError`` for one that has a meaning in another format, or for Spark's file sources.
    """
    lost = "the write would leave other rows or columns than you asked for. Nothing was written."
    return _is_served(key, text, _FOREIGN, lost)


def foreign_read(key: str, text: str) -> bool:
    """``foreign_write`` for an option of a read."""
    lost = "the read would show other rows than you asked for."
    served = _is_served(key, text, _FOREIGN_READS, lost)
    return served or letters_of(key) in ("mergeschema", "overwriteschema")


def _is_served(key: str, text: str, known: Mapping[str, tuple[str | None, str]], lost: str) -> bool:
    served, instead = known.get(letters_of(key), ("", ""))
    if instead and text.strip().lower() != served:
        raise ConfigError(
            f"'{key}' is not a pyhudi option, and without it {lost} {instead}.",
            key=key,
        )
    _refuse_meaningless(key)
    return bool(instead)


def _refuse_meaningless(key: str) -> None:
    """Options that mean nothing here would be taken for options that work."""
    instead = _MEANINGLESS.get(letters_of(key))
    if key.lower().startswith("fs."):
        instead = f"The session has the settings of storage: spark.hadoop.{key}"
    if instead is not None:
        raise ConfigError(
            f"'{key}' is an option of other sources and means nothing for a Hudi table. {instead}. "
            "Leave the option out.",
            key=key,
        )


def letters_of(key: str) -> str:
    """A key's letters in lower case: others spell one name with dots, hyphens or capitals."""
    return re.sub("[^a-z]", "", key.lower())
