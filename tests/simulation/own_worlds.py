"""All guards around pyhudi's own services, and all cases of them."""

from __future__ import annotations

from typing import Final

from tests.simulation.archive_guards import ARCHIVE_CASES, ARCHIVE_GUARDS
from tests.simulation.clustering_guards import CLUSTERING_CASES, CLUSTERING_GUARDS
from tests.simulation.guards import Case, Guards
from tests.simulation.own_guards import OWN_CASES, OWN_GUARDS

ALL_OWN_GUARDS: Final[Guards] = {**OWN_GUARDS, **ARCHIVE_GUARDS, **CLUSTERING_GUARDS}
ALL_OWN_CASES: Final[tuple[Case, ...]] = (*OWN_CASES, *ARCHIVE_CASES, *CLUSTERING_CASES)
