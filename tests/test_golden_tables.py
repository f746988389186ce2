from __future__ import annotations

from pathlib import Path

from pyhudi.format.table_config import TableType, parse_table_config
from tests import golden_tables


def test_every_golden_table_has_its_rows_unless_it_is_a_copy_of_a_failing_write() -> None:
    without = {table.name for table in golden_tables.ALL if table.expected() is None}

    assert without == {t.name for t in golden_tables.ALL if t.moment == "midfail"}
    assert len(golden_tables.ALL) == 86


def test_the_names_tell_version_and_type_as_the_properties_do() -> None:
    for table in golden_tables.ALL:
        path = ".hoodie/hoodie.properties"
        config = parse_table_config(table.files()[path], path)

        is_mor = config.table_type is TableType.MERGE_ON_READ
        assert (config.version, is_mor) == (table.version, table.merge_on_read), table.name


def test_unzipping_gives_the_table_root(tmp_path: Path) -> None:
    root = golden_tables.BY_NAME["h120_v9-cow_part"].unzip(tmp_path)

    assert (root / ".hoodie" / "hoodie.properties").is_file()
