"""Payload classes of Apache Hudi that stand for several properties of a table of version 9.

Apache Hudi 1.2.0 records these properties in place of the class (spec/merging.md R2 and R6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.errors import ConfigError
from pyhudi.format.table_config import PAYLOAD_MODES, MergeMode

MODE: Final = "hoodie.record.merge.mode"
ORDERING: Final = "hoodie.table.ordering.fields"
#: the class that was named; what follows from it stands in the other properties
LEGACY: Final = "hoodie.table.legacy.payload.class"
PARTIAL_UPDATE: Final = "hoodie.table.partial.update.mode"
#: names of properties that merges obey begin so
MERGE_PROPERTY: Final = "hoodie.record.merge.property."
UNAVAILABLE: Final = MERGE_PROPERTY + "hoodie.write.partial.update.unavailable.value"
#: which rows are deletes, by a column and a text in it; a table records both with the prefix
DELETE_MARKS: Final = ("hoodie.payload.delete.field", "hoodie.payload.delete.marker")
DELETE_FIELD, DELETE_MARKER = (MERGE_PROPERTY + name for name in DELETE_MARKS)

_MODEL: Final = "org.apache.hudi.common.model."
_BY_EVENT, _BY_COMMIT = (
    MergeMode.EVENT_TIME_ORDERING.value,
    MergeMode.COMMIT_TIME_ORDERING.value,
)
_DEBEZIUM: Final = {DELETE_FIELD: "_change_operation_type", DELETE_MARKER: "d", MODE: _BY_EVENT}

_PROPERTIES: Final[Mapping[str, Mapping[str, str]]] = {
    "AWSDmsAvroPayload": {MODE: _BY_COMMIT, DELETE_FIELD: "Op", DELETE_MARKER: "D"},
    "PartialUpdateAvroPayload": {MODE: _BY_EVENT, PARTIAL_UPDATE: "IGNORE_DEFAULTS"},
    "OverwriteNonDefaultsWithLatestAvroPayload": {
        MODE: _BY_COMMIT,
        PARTIAL_UPDATE: "IGNORE_DEFAULTS",
    },
    "debezium.MySqlDebeziumAvroPayload": _DEBEZIUM | {ORDERING: "_event_bin_file,_event_pos"},
    "debezium.PostgresDebeziumAvroPayload": _DEBEZIUM
    | {
        ORDERING: "_event_lsn",
        PARTIAL_UPDATE: "FILL_UNAVAILABLE",
        UNAVAILABLE: "__debezium_unavailable_value",
    },
}
#: by the name of the class, without its package
PAYLOADS: Final[Mapping[str, Mapping[str, str]]] = {
    name.rsplit(".", 1)[-1]: {**found, LEGACY: _MODEL + name} for name, found in _PROPERTIES.items()
}


#: options that name a class, in lower case; the second is for SQL
_NAMING: Final = (
    "hoodie.datasource.write.payload.class",
    "payloadclass",
    "hoodie.compaction.payload.class",
    LEGACY,
)


def properties_of(key: str, text: str) -> Mapping[str, str]:
    """The properties that ``key`` stands for if ``text`` is a payload class, with or without its
    package; none if the text is the whole value.

    ``ConfigError`` if the key must name a class, and pyhudi does not know it.
    """
    name = text.strip().rsplit(".", 1)[-1]
    if (found := PAYLOADS.get(name)) is not None:
        return found
    naming = key.lower() in _NAMING
    if naming and name not in PAYLOAD_MODES and name.upper() not in (_BY_EVENT, _BY_COMMIT):
        raise ConfigError(
            f"'{key}' is '{text}', but pyhudi merges by event time, by commit time, or by one of "
            f"these classes: {', '.join((*PAYLOAD_MODES, *PAYLOADS))}. Name one of them, or set "
            f"{MODE} to {_BY_EVENT} or {_BY_COMMIT}.",
            key=key,
        )
    if key.lower() == LEGACY and name in PAYLOAD_MODES:
        return {LEGACY: _MODEL + name, MODE: PAYLOAD_MODES[name].value}
    return {}
