"""All kinds of faults, in the order in which they are looked for."""

from __future__ import annotations

from typing import Final

from pyhudi.repairs.commit_faults import COMMIT_KINDS
from pyhudi.repairs.fault_kind import Kind
from pyhudi.repairs.leftover_faults import LEFTOVER_KINDS
from pyhudi.repairs.log_faults import LOG_KINDS
from pyhudi.repairs.metadata_faults import METADATA_KINDS
from pyhudi.repairs.partition_faults import PARTITION_KINDS
from pyhudi.repairs.properties_faults import PROPERTIES_KINDS
from pyhudi.repairs.row_faults import ROW_KINDS
from pyhudi.repairs.schema_faults import SCHEMA_KINDS
from pyhudi.repairs.service_faults import SERVICE_KINDS

KINDS: Final[tuple[Kind, ...]] = (
    *PROPERTIES_KINDS,
    *METADATA_KINDS,
    *PARTITION_KINDS,
    *COMMIT_KINDS,
    *SCHEMA_KINDS,
    *SERVICE_KINDS,
    *LEFTOVER_KINDS,
    *ROW_KINDS,
    *LOG_KINDS,
)
