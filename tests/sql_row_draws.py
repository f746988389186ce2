"""Random statements that change rows: INSERT, OVERWRITE, TRUNCATE, UPDATE, DELETE and MERGE."""

from __future__ import annotations

from dataclasses import replace

from tests.sql_domains import NAMES
from tests.sql_draws import (
    PLAIN,
    Chance,
    Made,
    assigned,
    assignments,
    clear,
    condition,
    draw_kind,
    draw_rows,
    named,
    simple_condition,
    whole_partitions,
)
from tests.sql_expressions import ALWAYS, Expression, both, column, compare
from tests.sql_model import LEFT, MATCHED, NEW, Clause, Model, merged
from tests.sql_query_draws import largest, queried, self_query
from tests.sql_values import WIDER, Column, Row, is_simple, literal, values_clause


def insert(chance: Chance, model: Model) -> Made:
    rows = clear(model, draw_rows(chance, model, 8), fresh=not model.definition.upserts)
    if not rows:
        return update(chance, model)
    if model.definition.keys and chance.once_in(12):
        at = model.at(model.definition.keys[0])
        rows.append((*rows[0][:at], None, *rows[0][at + 1 :]))
    if chance.once_in(3):
        names = chance.some(model.names, len(model.names), len(model.names))
        places = [model.at(name) for name in names]
        shuffled = [tuple(row[i] for i in places) for row in rows]
        given = values_clause(shuffled, [model.columns[i] for i in places])
        return Made(f"insert into {{t}} ({named(names)}) {given}", lambda: model.inserted(rows))
    sql = f"insert into {{t}} {values_clause(rows, model.columns)}"
    return Made(sql, lambda: model.inserted(rows))


def copy(chance: Chance, model: Model) -> Made:
    """INSERT of rows that a query on the table itself gives."""
    of = model.definition
    query, rows = self_query(chance, model, of.keys)
    if of.keys and not (of.upserts and len(clear(model, rows, fresh=False)) == len(rows)):
        return insert(chance, model)
    return Made(f"insert into {{t}} {query}", lambda: model.inserted(rows))


def overwrite(chance: Chance, model: Model) -> Made:
    # INSERT OVERWRITE looks up no keys: if keys are unique, its rows get new ones.
    held = model if model.definition.unique else replace(model, rows=())
    rows = clear(held, draw_rows(chance, model, 4), fresh=True)
    if not rows:
        return discard(chance, model)
    given, parts = values_clause(rows, model.columns), model.definition.partitions
    way = chance.one(("dynamic", "static", "whole")) if parts else "whole"
    if way == "dynamic":
        touched = [model.path(row) for row in rows]
        return Made(
            f"insert overwrite {{t}} {given}",
            lambda: model.overwritten(rows, touched),
            dynamic=True,
        )
    path = _some_path(chance, model) if way == "static" else None
    if path is None:
        return Made(f"insert overwrite {{t}} {given}", lambda: model.overwritten(rows, None))
    places = dict(zip(parts, path, strict=True))
    rows = [
        tuple(places.get(name, value) for name, value in zip(model.names, row, strict=True))
        for row in rows
    ]
    rows = clear(held, rows, fresh=True)
    rest = tuple(each for each in model.columns if each.name not in parts)
    kept = [tuple(row[model.at(each.name)] for each in rest) for row in rows]
    sql = f"insert overwrite {{t}} partition ({_spec(model, path)}) {values_clause(kept, rest)}"
    return Made(sql, lambda: model.overwritten(rows, [path]))


def _some_path(chance: Chance, model: Model) -> Row | None:
    """A partition that has rows and no null in its name."""
    paths = sorted({model.path(row) for row in model.rows if None not in model.path(row)}, key=repr)
    return chance.one(paths) if paths else None


def _spec(model: Model, path: Row) -> str:
    parts = model.definition.partitions
    # Spark takes plain literals here, no casts.
    texts = (str(value) if isinstance(value, int) else literal(value, "string") for value in path)
    return ", ".join(f"{name} = {text}" for name, text in zip(parts, texts, strict=True))


def discard(chance: Chance, model: Model) -> Made:
    """Partitions, or all rows, taken away without a look at them."""
    path = _some_path(chance, model) if model.definition.partitions else None
    if path is None:
        return Made("truncate table {t}", lambda: model.overwritten([], None))
    form = chance.one(("alter table {t} drop partition", "truncate table {t} partition"))
    return Made(f"{form} ({_spec(model, path)})", lambda: model.overwritten([], [path]))


def redefine(chance: Chance, model: Model) -> Made:
    """CREATE OR REPLACE TABLE of other columns; those of the key, partitions and order stay."""
    of, last = model.definition, model.definition.partitions
    kept = [each for each in model.columns if each.name in of.fixed or chance.once_in(2)]
    fresh = [_redrawn(chance, model, name) for name in chance.some(NAMES, 2)]
    columns = {each.name: each for each in (*kept, *fresh) if each.name not in of.fixed}
    columns |= {each.name: each for each in model.columns if each.name in of.fixed}
    order = chance.some(tuple(columns), len(columns), len(columns))
    chosen = [columns[name] for name in sorted(order, key=lambda name: name in last)]
    chosen[len(chosen) - len(last) :] = [columns[name] for name in last]
    new = replace(model, columns=tuple(chosen), rows=())
    rows = clear(new, draw_rows(chance, new, 4), fresh=True)
    parts = f" partitioned by ({', '.join(last)})" if last else ""
    sql = (
        f"create or replace table {{t}} using pyhudi{parts} as "
        f"select * from {values_clause(rows, chosen)} as v({named(new.names)})"
    )
    return Made(sql, lambda: model.redefined(chosen, rows))


def _redrawn(chance: Chance, model: Model, name: str) -> Column:
    """A column of this name whose type does not fit that of the table's, so it is another one."""
    old = dict(zip(model.names, model.columns, strict=True)).get(name)
    if old is None:
        return Column(name, draw_kind(chance))
    flat = is_simple(old.kind)
    return Column(name, f"array<{chance.one(PLAIN)}>" if flat else chance.one(tuple(WIDER)))


# ---- UPDATE, DELETE, MERGE


def _rows_that(chance: Chance, model: Model) -> tuple[str, Expression]:
    """The alias of the table and a condition on its rows, every third one with a sub-query."""
    if chance.once_in(3):
        return "t", queried(chance, model, "t")
    return "", ALWAYS if chance.once_in(6) else condition(chance, model)


def _from(alias: str, test: Expression) -> tuple[str, str]:
    """The table with its alias, and the WHERE clause."""
    target = f"{{t}} as {alias}" if alias else "{t}"
    return target, "" if test is ALWAYS else f" where {test.sql}"


def update(chance: Chance, model: Model) -> Made:
    alias, test = _rows_that(chance, model)
    asked = largest(chance, model) if alias and chance.once_in(2) else {}
    text, values = assignments(chance, model, (alias,), asked)
    clause = Clause(MATCHED, test, values)

    def work() -> Model:
        found = {at: model.scope(row, alias) for at, row in enumerate(model.rows)}
        changes = {
            at: clause.row(model, model.rows[at], scope)
            for at, scope in found.items()
            if test.of(scope)
        }
        return model.changed(changes)

    target, where = _from(alias, test)
    return Made(f"update {target} set {text}{where}", work)


def delete(chance: Chance, model: Model) -> Made:
    whole = bool(model.definition.partitions) and chance.once_in(3)
    alias, test = ("", whole_partitions(chance, model)) if whole else _rows_that(chance, model)

    def work() -> Model:
        doomed = [at for at, row in enumerate(model.rows) if test.of(model.scope(row, alias))]
        return model.changed(dict.fromkeys(doomed))

    target, where = _from(alias, test)
    return Made(f"delete from {target}{where}", work)


def merge(chance: Chance, model: Model) -> Made:
    of = model.definition
    plain = [each.name for each in model.columns if is_simple(each.kind)]
    if not plain:
        return update(chance, model)
    rows = draw_rows(chance, model, 6)
    query, own = self_query(chance, model, of.keys) if chance.once_in(3) else ("", [])
    if of.keys and not chance.once_in(6):
        known = {model.key(row) for row in own}
        rows = list({model.key(row): row for row in rows if model.key(row) not in known}.values())
    ties = of.keys or chance.some(plain, 1)
    on = [compare(column(name, "t"), "=", column(name, "s")) for name in ties]
    if of.partitions and chance.once_in(3):
        on += [compare(column(n, "t"), "<=>", column(n, "s")) for n in of.partitions]
    if chance.once_in(5):
        on.append(simple_condition(chance, model, chance.one(("t", "s"))))
    test = both(on)
    texts, clauses = [], []
    for kind in sorted(chance.some((MATCHED, NEW, LEFT), 3), key=[MATCHED, NEW, LEFT].index):
        for last in (False, True):
            if last or chance.once_in(3):
                text, clause = _clause(chance, model, kind, last)
                texts.append(text)
                clauses.append(clause)
    given = f"select * from {values_clause(rows, model.columns)} as v({named(model.names)})"
    source = " union all ".join(each for each in (query, given if rows else "") if each)
    rows = [*own, *rows]
    sql = f"merge into {{t}} t using ({source}) s on {test.sql} {' '.join(texts)}"
    scopes = [model.scope(row, "s") for row in rows]
    return Made(sql, lambda: merged(model, scopes, test, clauses))


def _clause(chance: Chance, model: Model, kind: str, last: bool) -> tuple[str, Clause]:
    sides = {MATCHED: ("t", "s"), NEW: ("s",), LEFT: ("t",)}[kind]
    bare = last and chance.one((True, False))
    test = ALWAYS if bare else condition(chance, model, chance.one(sides))
    given = {name: column(name, "s") for name in model.names}
    values: dict[str, Expression] | None
    if kind == NEW:
        then, values = "insert *", given
        if chance.once_in(2):
            some = model.definition.fixed
            values = {
                name: given[name] if name in some else assigned(chance, model, name, sides)
                for name in model.names
            }
            texts = ", ".join(value.sql for value in values.values())
            then = f"insert ({named(tuple(values))}) values ({texts})"
    elif chance.once_in(3):
        then, values = "delete", None
    elif kind == MATCHED and chance.one((True, False)):
        then, values = "update set *", given
    else:
        text, values = assignments(chance, model, sides)
        then = f"update set {text}"
    only = "" if test is ALWAYS else f" and ({test.sql})"
    return f"when {kind}{only} then {then}", Clause(kind, test, values)
