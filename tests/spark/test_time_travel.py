"""The table as it was: every form in which a time can be given."""

from __future__ import annotations

import pytest

from tests.spark.tables import OPTIONS, VERSION, HudiTable, Lake, readable, refused, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.compiled]


def history(lake: Lake, version: str) -> tuple[HudiTable, list[str], list[set[int]]]:
    """A table after four commits, their instants, and the ids that each left."""
    table = lake.table(options={**OPTIONS, VERSION: version})
    table.write(rows_of(0, 3, "a"))
    table.write(rows_of(3, 6, "b"))
    table.write([(0, "", 0, "2024-01-01"), (9, "", 0, "x")], "delete")
    table.write([(7, "c", 1, "2024-01-02")], "insert_overwrite")
    states = [{0, 1, 2}, {0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}, {2, 3, 5, 7}]
    return table, table.instants(), states


@pytest.mark.parametrize("version", ["6", "9"])
def test_every_past_state_can_be_read_in_every_form_of_its_time(lake: Lake, version: str) -> None:
    table, instants, states = history(lake, version)
    spark = lake.spark
    assert set(table.rows()) == states[-1]
    for instant, state in zip(instants, states, strict=True):
        text = readable(instant)
        for form in (instant, text, text.replace(" ", "T"), text.replace(" ", "T") + "Z"):
            assert set(table.rows(as__of__instant=form)) == state, form
        assert table.df(as__of__instant=instant).count() == len(state)
        path = f"pyhudi.`{table.path}`"
        for clause in (f"version as of '{instant}'", f"timestamp as of '{text}'"):
            found = spark.sql(f"select id from {path} {clause}").collect()
            assert {row[0] for row in found} == state, clause

    just_before = str(int(instants[1]) - 1)
    assert set(table.rows(as__of__instant=just_before)) == states[0]
    assert set(table.rows(as__of__instant="2999-01-01")) == states[-1]


def test_a_time_that_cannot_be_served_is_refused(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    with refused("CONFIG_ERROR", table.path, "yesterday"):
        table.rows(as__of__instant="yesterday")
    with refused("HISTORY_EXPIRED", table.path, "1999"):
        table.rows(as__of__instant="1999-01-01")


def test_two_states_can_be_joined(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 4, "a"))
    table.write(rows_of(2, 6, "b", 2))
    first = table.instants()[0]
    old = table.df(as__of__instant=first)
    joined = table.df().alias("n").join(old.alias("o"), "id", "left")

    found = {r[0]: (r[1], r[2]) for r in joined.select("id", "o.name", "n.name").collect()}
    assert found == {0: ("a0", "a0"), 1: ("a1", "a1"), 2: ("a2", "b2"), 3: ("a3", "b3"),
                     4: (None, "b4"), 5: (None, "b5")}  # fmt: skip


def test_a_frame_keeps_to_the_instant_it_was_opened_at(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    opened = table.df()
    table.write(rows_of(3, 6, "b"))

    assert sorted(row["id"] for row in opened.collect()) == [0, 1, 2]
    assert opened.count() == 3
    assert table.df().count() == 6


def test_options_that_a_read_does_not_heed_are_named_once(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    table = lake.table()
    table.write([(1, "a", 5, "x")])
    options = {"hoodie.file.index.enable": "false"}

    for _ in range(2):
        lake.spark.read.format("pyhudi").options(**options).load(table.path).count()

    assert sum("no effect" in record.message for record in caplog.records) == 1
