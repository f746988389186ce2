"""Random writes of DataFrames between the statements, with columns that are new or wider."""

from __future__ import annotations

from tests.sql_domains import INDEXES, MERGE_ON_READ, NAMES
from tests.sql_draws import Chance, Made, clear, draw_kind, draw_rows, named
from tests.sql_model import Model
from tests.sql_values import Row, quoted, values_clause

#: types that a batch may widen columns to, as the guide says
WIDER_IN_BATCH = {"int": ("bigint", "double"), "float": ("double",)}
OPERATION = "hoodie.datasource.write.operation"


def append(chance: Chance, model: Model) -> Made:
    """Mode append: an upsert where the table has a key, an insert where it has none."""
    evolved = _evolved(chance, model)
    rows = clear(evolved, draw_rows(chance, evolved, 6), fresh=False)
    sql = _query(chance, evolved, rows)
    return Made(sql, lambda: evolved.upserted(rows), options=_options(model))


def remove(chance: Chance, model: Model) -> Made:
    """Operation delete, which looks at keys and partitions alone."""
    if not model.definition.keys:
        return append(chance, model)
    rows = draw_rows(chance, model, 4)
    doomed = {model.place(row) for row in rows}
    options = {**_options(model), OPERATION: "delete"}
    return Made(_query(chance, model, rows), lambda: model.without(doomed), options=options)


def _evolved(chance: Chance, model: Model) -> Model:
    """The table as the batch changes its columns."""
    of = model.definition
    if chance.once_in(3):
        free = [name for name in NAMES if name not in model.names]
        model = model.added(chance.one(free), draw_kind(chance), None) if free else model
    if chance.once_in(3):
        stay = (*of.keys, *of.partitions)
        if MERGE_ON_READ in of.properties and of.decides is not None:
            stay += (of.decides,)  # as for ALTER: refused while logs have deletes
        plain = [each for each in model.columns if each.name not in stay]
        grows = [each for each in plain if each.kind in WIDER_IN_BATCH]
        for each in grows[:1]:
            model = model.widened(each.name, chance.one(WIDER_IN_BATCH[each.kind]))
    return model


def _query(chance: Chance, model: Model, rows: list[Row]) -> str:
    """The rows with their columns in any order."""
    names = chance.some(model.names, len(model.names), len(model.names))
    given = values_clause(rows, model.columns)
    return f"select {named(names)} from {given} as v({', '.join(map(quoted, model.names))})"


def _options(model: Model) -> dict[str, str]:
    """What a Hudi table does not record: the index of its writers."""
    indexes = {key for index in INDEXES for key, _ in index}
    return {key: value for key, value in model.definition.properties if key in indexes}
