"""Run the Python blocks of a page: ``python docs/run_page.py docs/pipeline.md``.

``/data/`` is a new folder, which is deleted at the end. ``tests/docs/test_snippets.py`` runs every
page.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import pyhudi

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main(page: Path) -> None:
    """Run the page's blocks in order, in one session."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master("local[2]").appName(page.stem)
        builder = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        builder = builder.config("spark.sql.shuffle.partitions", "2")
        spark = pyhudi.configure(builder).getOrCreate()
        names: dict[str, Any] = {"spark": spark}
        for found in BLOCK.finditer(text):
            line = text[: found.start()].count("\n") + 1
            code = found[1].replace("/data/", f"{folder}/")
            exec(compile("\n" * line + code, str(page), "exec"), names)
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
