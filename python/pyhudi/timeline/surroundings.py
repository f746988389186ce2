"""What lies at a path that holds no table, and whether a path lies inside one: for clear errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

from pyhudi.errors import ConfigError, HudiError
from pyhudi.format.partition_metadata import FILE_NAME, parse
from pyhudi.format.properties import PATH
from pyhudi.storage.base import Storage

#: folders that are looked into for tables
LOOKS: Final = 20
#: levels above a path in which a table is looked for
LEVELS: Final = 8
#: what other formats keep in a table's folder
_FORMATS: Final = {
    "_delta_log": "It holds a Delta table: read it with format('delta').",
    "metadata": "It may hold an Iceberg table: read it with format('iceberg').",
    "_spark_metadata": "A stream of Spark's file sink wrote to it: read it with its own format.",
}


def what_is_there(storage: Storage) -> str:
    """One sentence about what is there instead of a table, and what to do."""
    try:
        return _found(storage)
    except (HudiError, OSError, ValueError):
        return "Check the path, or write to it first."


#: ends of names that files have
_FILE: Final = re.compile(r"\.(parquet|orc|avro|csv|json)$")


def refuse_inside_table(root: str, storage: Callable[[str], Storage]) -> None:
    """``ConfigError`` if a folder above ``root`` holds a table, whose files these would become.

    A folder that cannot be looked at counts as one without a table.
    """
    for above in _above(root):
        found = False
        with suppress(HudiError, OSError):
            found = storage(above).exists(PATH)
        if found:
            raise ConfigError(
                f"{root} lies inside the table at {above}: its files would be taken for that "
                "table's. Nothing was written. Choose a folder outside of it.",
                key="path",
            )


def _found(storage: Storage) -> str:
    root = storage.root
    if re.search(r"[*?{}\[\]]", root):
        return "A path with * or ? is no table: name one folder, and filter its partitions."
    if (inside := re.fullmatch(r"(.+)/\.hoodie(?:/.*)?", root)) is not None:
        return f"It is a folder of Hudi's inside the table at {inside[1]}: load that."
    with suppress(FileNotFoundError, NotADirectoryError):
        _, depth = parse(storage.read(FILE_NAME), FILE_NAME)
        table = next(islice(_above(root), depth - 1, None), None) if depth else root
        if table is None:
            return "It is the folder of a partition, but no table is above it: load the table."
        return f"It is a partition of the table at {table}: load that, and filter its partition."
    folders = storage.list_folders("")
    for folder in folders[:LOOKS]:
        if storage.exists(f"{folder}/{PATH}"):
            return f"There is one at {root.rstrip('/')}/{folder}."
    for folder in folders:
        if folder in _FORMATS:
            return _FORMATS[folder]
    files = [file for folder in ("", *folders[:LOOKS]) for file in storage.list(folder)]
    if any(file.name.endswith(".parquet") for file in files):
        return (
            "It holds Parquet files: read them with spark.read.parquet, or write their rows to a "
            "new table with operation bulk_insert."
        )
    if not files and not folders and _FILE.search(root):
        return "No folder is there, and a file is no table: name the table's folder."
    if not files and not folders:
        return "Nothing is there. Check the path, or write to it first."
    return "It holds other files. Check the path, or write to another one first."


def _above(root: str) -> Iterator[str]:
    """The folders above a normalized root, the nearest first."""
    start, scheme, path = root.rpartition("://")
    for _ in range(LEVELS):
        path = path.rpartition("/")[0]
        if not path.strip("/"):
            return
        yield f"{start}{scheme}{path}"
