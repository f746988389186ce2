"""Random ALTER TABLE statements, on the columns of a table and on the fields of its structs."""

from __future__ import annotations

from tests.sql_domains import FIELD_NAMES, MERGE_ON_READ, NAMES
from tests.sql_draws import Chance, Made, draw_kind
from tests.sql_model import Model
from tests.sql_values import WIDER, fields, is_simple, is_struct, quoted, sql_type

#: the path of a struct, "" for the table itself, and the names of what is in it
Place = tuple[str, list[str]]


def _place(chance: Chance, model: Model) -> Place:
    """Where columns change: in a struct mostly, where there is one."""
    structs = [path for path, kind in model.paths.items() if is_struct(kind)]
    if chance.by_names or not structs or chance.once_in(3):
        return "", list(model.names)
    path = chance.one(structs)
    return f"{path}.", [each.name for each in fields(model.kind(path))]


def add(chance: Chance, model: Model) -> Made:
    within, names = _place(chance, model)
    kind = draw_kind(chance, depth=1)
    free = [name for name in (FIELD_NAMES if within else NAMES) if name not in names]
    name = chance.one(names if chance.once_in(8) else free or ["late"])
    after = None if chance.by_names else chance.one((None, "", chance.one(names)))
    place = "" if after is None else " first" if not after else f" after {quoted(after)}"
    sql = f"alter table {{t}} add columns ({quoted(within + name)} {sql_type(kind)}{place})"
    return Made(sql, lambda: model.added(within + name, kind, after))


def _free(chance: Chance, model: Model, place: Place) -> str:
    """A column that may change its name, mostly, or a field."""
    within, names = place
    free = [name for name in names if within or name not in model.definition.fixed]
    return within + chance.one(names if not free or chance.once_in(8) else free)


def rename(chance: Chance, model: Model) -> Made:
    place = _place(chance, model)
    path, to = _free(chance, model, place), chance.one(FIELD_NAMES if place[0] else NAMES)
    sql = f"alter table {{t}} rename column {quoted(path)} to {quoted(to)}"
    return Made(sql, lambda: model.renamed(path, to))


def drop(chance: Chance, model: Model) -> Made:
    place = _place(chance, model)
    if not place[0] and len(model.names) - len(model.definition.fixed) < 2:
        return add(chance, model)
    path = _free(chance, model, place)
    return Made(f"alter table {{t}} drop column {quoted(path)}", lambda: model.dropped(path))


def move(chance: Chance, model: Model) -> Made:
    within, names = _place(chance, model)
    name = chance.one(names)
    after = chance.one(("", *(each for each in names if each != name)))
    place = f"after {quoted(after)}" if after else "first"
    sql = f"alter table {{t}} alter column {quoted(within + name)} {place}"
    return Made(sql, lambda: model.moved(within + name, after))


def widen(chance: Chance, model: Model) -> Made:
    paths = {path: kind for path, kind in model.paths.items() if is_simple(kind) and WIDER[kind]}
    of = model.definition
    if MERGE_ON_READ in of.properties and of.decides is not None:
        # Refused while logs have deletes, and the model does not know when that is.
        paths.pop(of.decides, None)
    grows = [path for path in paths if not (chance.by_names and "." in path)]
    if not grows:
        return add(chance, model)
    path = chance.one(grows)
    kind = chance.one(WIDER[paths[path]])
    if chance.once_in(8):
        kind = chance.one(("boolean", "date"))
    sql = f"alter table {{t}} alter column {quoted(path)} type {kind}"
    return Made(sql, lambda: model.widened(path, kind))
