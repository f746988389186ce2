"""By which rules the logs of a table are merged, by its properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableConfig
from pyhudi.payloads import UNAVAILABLE
from pyhudi.rows.log_spec import CountedInstants
from pyhudi.rows.spec import FileSystemSpec, Filled
from pyhudi.services.slice_merging import merge_spec, unfollowed, unmergeable
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from tests import golden_tables
from tests.doctor.broken import properties, put_properties

MODE = "hoodie.table.partial.update.mode"


def config_of(folder: Path, version: int, **more: str) -> TableConfig:
    root = golden_tables.BY_NAME[f"h120_v{version}-mor_np"].unzip(folder)
    put_properties(root, properties(root) | more)
    return open_table(LocalStorage(str(root))).config


@pytest.mark.parametrize(
    ("more", "filled"),
    [
        ({}, None),
        ({MODE: "IGNORE_DEFAULTS"}, Filled()),
        ({MODE: "FILL_UNAVAILABLE", UNAVAILABLE: "?"}, Filled("?")),
        # Without a mark all values count, as in Apache Hudi.
        ({MODE: "FILL_UNAVAILABLE"}, None),
    ],
)
def test_a_partial_update_mode_says_which_values_stand_for_none(
    tmp_path: Path, more: dict[str, str], filled: Filled | None
) -> None:
    config = config_of(tmp_path, 9, **more)
    counted = CountedInstants(frozenset(), "")
    spec = merge_spec(config, (FileSystemSpec("local"), ""), (), counted, SparkSchema())
    assert spec.filled == filled
    assert unmergeable(config) is None
    assert (unfollowed(config) is None) == (MODE not in more)


@pytest.mark.parametrize(("version", "mode"), [(9, "KEEP_VALUES"), (8, "IGNORE_DEFAULTS")])
def test_other_modes_and_older_versions_with_one_are_refused(
    tmp_path: Path, version: int, mode: str
) -> None:
    config = config_of(tmp_path, version, **{MODE: mode})
    assert unmergeable(config) == f"log files that are merged by {MODE}={mode}"
    assert unfollowed(config) == unmergeable(config)
