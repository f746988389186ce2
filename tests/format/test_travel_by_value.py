"""Workers have Python and pyarrow but no pyhudi: what they use of format/ travels by value."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

cloudpickle = pytest.importorskip("pyspark.cloudpickle")

TRAVELLERS = ("bloom", "filenames", "keys", "markers", "partition_metadata")

_RECEIVER = """
import importlib.util, pickle, sys
sys.path = [p for p in sys.path if "python" != p.rstrip("/").rpartition("/")[2]]
assert importlib.util.find_spec("pyhudi") is None, "pyhudi is importable here"
print(pickle.load(open(sys.argv[1], "rb"))())
"""


def test_names_keys_markers_and_filters_work_where_pyhudi_is_missing(tmp_path: Path) -> None:
    # Names, never modules: a module object is pickled by its name even where its contents travel.
    from pyhudi.errors import InvalidRecord
    from pyhudi.format.bloom import BloomFilter
    from pyhudi.format.filenames import LogFileName, bucket_number, parse_base_file_name
    from pyhudi.format.keys import buckets_of, partition_path
    from pyhudi.format.markers import MarkerKind, marker_path
    from pyhudi.format.partition_metadata import render

    def task() -> str:
        import pyarrow as pa

        column = pa.array(["a", "b", None])
        filter_ = BloomFilter.sized(3)
        filter_.add(column)
        known = BloomFilter.from_footer(filter_.to_footer(), None).might_contain(column)
        name = parse_base_file_name("f-0_0-1-2_20260102030405678.parquet")
        assert name is not None
        caught = ""
        try:
            partition_path(["a"], [".."], hive_style=False, url_encode=False)
        except InvalidRecord as error:
            caught = error.code()
        results = [
            known.tolist(),
            marker_path(name.instant, name.render(), MarkerKind.CREATE),
            LogFileName(name.file_id, name.instant, 1, None).render(),
            partition_path(["a"], ["x/y"], hive_style=True, url_encode=True),
            caught,
            buckets_of([column], 7).tolist(),
            bucket_number("00000007-x"),
            render(name.instant, 1).decode().split()[-1],
        ]
        return " ".join(map(str, results))

    names = ["errors", *(f"format.{name}" for name in TRAVELLERS)]
    modules = [sys.modules[f"pyhudi.{name}"] for name in names] + [sys.modules[__name__]]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        (tmp_path / "task").write_bytes(cloudpickle.dumps(task))
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)

    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", _RECEIVER, str(tmp_path / "task")],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == task()
    assert done.stdout.startswith("[True, True, False] .hoodie/.temp/20260102030405678/f-0_")
