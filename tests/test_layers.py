"""The import graph goes down the layers: no module imports one above its own.

The list is that of ARCHITECTURE.md, "Layers".
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "python" / "pyhudi"

# Lower numbers know nothing of higher ones; packages of one number know nothing of each other.
# The option table speaks the format's words (merge mode, key generator), so it stands on format/.
LAYERS = {
    "errors": 0,
    "clock": 0,
    "hive_thrift": 0,
    "recent": 0,
    "text_table": 0,
    "listing": 1,
    "format": 1,
    "choices": 2,
    "foreign_options": 2,
    "hudi_keys": 2,
    "payloads": 2,
    "option": 3,
    "lock_options": 4,
    "option_tables": 5,
    "option_names": 6,
    "config": 7,
    "storage": 8,
    "slices": 9,
    "timeline": 10,
    "locks": 11,
    "transactions": 12,
    "rows": 13,
    "index": 14,  # its lookup runs in workers and opens files as rows/ does
    "catalogs": 15,
    "diagnosis": 16,  # it asks services what they would do
    "services": 15,
    "application": 16,
    "repairs": 17,  # it asks services and diagnosis
    "reads": 17,
    "tables": 18,
    "writes": 19,
    "spark": 20,
    "cli": 21,
    "": 22,  # pyhudi/__init__.py, the public surface
}

# The folders of transactions/, likewise; its own modules stand above and below them.
STEPS = ["times", "markers", "recovery", "conflicts"]

# What a worker runs is sent to it by value, with all that it imports: no driver state may be there.
WORKER_MODULES = ("rows/", "index/lookup.py")
WORKER_LIBRARIES = {"pyhudi", "numpy", "pyarrow", "pyspark", *sys.stdlib_module_names}

#: how the shim's classes are named
SHIM = ("io.pyhudi", "org.apache.spark.sql.pyhudi")

# A library that one place wraps is imported there only.
HOMES = {
    "py4j": ("spark/",),
    "boto3": ("storage/s3.py", "locks/dynamodb.py"),
    "botocore": ("storage/s3.py", "locks/dynamodb.py"),
    "kazoo": ("locks/zookeeper_session.py",),
    "pymetastore": (
        "hive_thrift.py",
        "locks/hive_metastore.py",
        "catalogs/hive_metastore.py",
    ),
    "fastavro": ("format/",),
    "aiohttp": ("transactions/markers/marker_server.py",),
    # a file with a name stays if its process is killed
    "tempfile": ("application/handed_files.py", "rows/spill.py", "cli/quickstart.py"),
}


def sources() -> dict[str, str]:
    """Every module of the package: path relative to it, and text."""
    found = {p.relative_to(PACKAGE).as_posix(): p.read_text() for p in PACKAGE.rglob("*.py")}
    assert len(found) > 10, "the package was not found"
    return found


def imported(text: str) -> Iterator[str]:
    """Dotted names that a module imports, wherever in it; for `from a import b` also `a.b`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            if node.module != "pyhudi":
                yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(path: str) -> str:
    return path.removesuffix("__init__.py").removesuffix(".py").split("/")[0]


def upward(path: str, text: str) -> list[str]:
    """Imports of ``text`` that go up, or across between packages of one layer."""
    own = layer_of(path)
    wrong = []
    for name in imported(text):
        if name == "pyhudi" and own not in ("", "spark", "cli"):
            wrong.append(name)
        if not name.startswith("pyhudi."):
            continue
        other = name.split(".")[1]
        if other in LAYERS and other != own and LAYERS[other] >= LAYERS[own]:
            wrong.append(name)
    return wrong


def strangers(path: str, text: str) -> list[str]:
    """Libraries that ``text`` imports away from their homes."""
    return [
        name
        for name in imported(text)
        if name.split(".")[0] in HOMES and not path.startswith(HOMES[name.split(".")[0]])
    ]


def test_every_module_is_in_a_layer() -> None:
    assert {layer_of(path) for path in sources()} <= set(LAYERS)


def test_imports_go_down_only() -> None:
    wrong = {path: names for path, text in sources().items() if (names := upward(path, text))}
    assert wrong == {}


def test_an_import_that_goes_up_is_seen() -> None:
    assert upward("format/keys.py", "from pyhudi.reads import scan") != []
    assert upward("rows/a.py", "def f():\n    import pyhudi.index.lookup") != []
    assert upward("writes/a.py", "import pyhudi.format.keys, pyhudi.errors") == []


def climbs(path: str, text: str) -> list[str]:
    """Imports between the folders of transactions/ that go up."""
    own = path.removeprefix("transactions/").split("/")[0]
    if not path.startswith("transactions/") or own not in STEPS:
        return []
    others = [(name, name.split(".")[2]) for name in imported(text) if name.count(".") > 2]
    above = STEPS[STEPS.index(own) + 1 :]
    return [name for name, to in others if name.startswith("pyhudi.transactions.") and to in above]


def test_the_folders_of_transactions_stand_on_each_other() -> None:
    wrong = {path: names for path, text in sources().items() if (names := climbs(path, text))}
    assert wrong == {}


def test_a_folder_of_transactions_that_climbs_is_seen() -> None:
    climbing = "from pyhudi.transactions.conflicts.judgement import check"
    assert climbs("transactions/times/a.py", climbing) != []
    assert climbs("transactions/conflicts/a.py", climbing) == []


def test_libraries_are_wrapped_in_one_place() -> None:
    wrong = {path: names for path, text in sources().items() if (names := strangers(path, text))}
    assert wrong == {}


def test_a_library_away_from_its_home_is_seen() -> None:
    assert strangers("reads/scan.py", "from py4j.java_gateway import JavaGateway") != []
    assert strangers("storage/s3.py", "import boto3") == []


def worker_needs(texts: dict[str, str]) -> tuple[set[str], set[str]]:
    """All modules that a worker reaches, and the libraries that these import."""
    reached: set[str] = set()
    libraries: set[str] = set()
    waiting = [path for path in texts if path.startswith(WORKER_MODULES)]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        for name in imported(texts[path]):
            libraries.add(name.split(".")[0])
            stem = "/".join(name.split(".")[1:])
            waiting += [p for p in (f"{stem}.py", f"{stem}/__init__.py") if p in texts]
    return reached, libraries


def test_a_worker_needs_no_more_than_travels_with_it() -> None:
    reached, libraries = worker_needs(sources())
    assert {path for path in reached if layer_of(path) not in ("errors", "format", "rows")} <= {
        "index/__init__.py",
        "index/lookup.py",
    }
    assert libraries <= WORKER_LIBRARIES


def test_what_travels_to_a_worker_holds_no_lock() -> None:
    """A cached property has one on Python 3.11: a class with it cannot be sent."""
    reached, _ = worker_needs(sources())
    assert [path for path in reached if "cached_property" in sources()[path]] == []


def test_what_a_worker_reaches_over_two_steps_is_seen() -> None:
    texts = {"rows/a.py": "from pyhudi.format import b", "format/b.py": "import fastavro"}
    assert worker_needs(texts) == ({"rows/a.py", "format/b.py"}, {"pyhudi", "fastavro"})


def reaches_jvm(text: str) -> list[str]:
    """PySpark's ways into the JVM that a module takes, and names of the shim's classes in it."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in ("_jvm", "_jsc", "_jdf", "_jrdd"):
            found.append(node.attr)
        if isinstance(node, ast.Constant) and str(node.value).startswith(SHIM):
            found.append(str(node.value))
    return found


def test_only_the_package_for_spark_reaches_into_the_jvm() -> None:
    elsewhere = {path: text for path, text in sources().items() if not path.startswith("spark/")}
    assert {path: w for path, text in elsewhere.items() if (w := reaches_jvm(text))} == {}


def test_a_reach_into_the_jvm_is_seen() -> None:
    assert reaches_jvm("def f(df):\n    return df._jdf") == ["_jdf"]
    assert reaches_jvm("HASH = 'io.pyhudi.KeyHash'") == ["io.pyhudi.KeyHash"]


# What only a schema's JSON has: Spark's, Avro's, and that of Hudi's schema history.
SCHEMA_KEYS = frozenset({
    "fields", "name", "type", "nullable", "metadata", "elementType", "valueType", "keyType",
    "containsNull", "valueContainsNull", "element_id",
})  # fmt: skip


def schema_keys(text: str) -> list[str]:
    """The keys of a schema's JSON by which a module subscripts something."""
    return [
        node.slice.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and node.slice.value in SCHEMA_KEYS
    ]


def test_a_schema_is_a_noun_outside_of_the_format() -> None:
    elsewhere = {path: text for path, text in sources().items() if not path.startswith("format/")}
    assert {path: keys for path, text in elsewhere.items() if (keys := schema_keys(text))} == {}


def test_a_schema_that_is_read_as_json_is_seen() -> None:
    assert schema_keys("names = [f['name'] for f in schema['fields']]") == ["name", "fields"]
