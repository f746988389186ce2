"""Tables whose files lack the partition columns are refused, not read without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.choices import Order
from pyhudi.errors import UnsupportedTable
from pyhudi.reads.stream_look import look
from pyhudi.reads.stream_refusals import refuse_table
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.view import VIEWS
from tests.golden_tables import BY_NAME
from tests.reads.merged_table import opened

DROPS = "hoodie.datasource.write.drop.partition.columns"


@pytest.mark.parametrize("name", ["h120_v9-cow_part", "h0150_v6-cow_np"])
def test_partition_columns_that_the_files_lack_are_no_rows_without_them(
    name: str, tmp_path: Path
) -> None:
    root = BY_NAME[name].unzip(tmp_path)
    properties = root / ".hoodie" / "hoodie.properties"
    kept = [x for x in properties.read_text().splitlines() if not x.startswith(DROPS)]
    properties.write_text("\n".join([*kept, f"{DROPS}=true", ""]))
    VIEWS.forget_all()
    if "part" not in name:
        assert opened(root).schema().names, "without partitions nothing is missing"
        return
    with pytest.raises(UnsupportedTable, match=r"drops its partition columns \(dt\)"):
        opened(root)
    with pytest.raises(UnsupportedTable, match=r"drops its partition columns \(dt\)"):
        refuse_table(look(LocalStorage(str(root)), Order.REQUESTED, lambda layout: Order.REQUESTED))
