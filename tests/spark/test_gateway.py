"""The planner's own process: how it is greeted, and that it ends with the JVM's end of the pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyhudi.errors import SetupError
from pyhudi.spark.gateway import Greeting


def test_a_greeting_names_port_and_token() -> None:
    assert Greeting.parse(b'{"port": 4711, "token": "t"}\n') == Greeting(4711, "t")


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b'{"port": "x", "token": ""}', b"\xff"])
def test_anything_else_is_refused(line: bytes) -> None:
    with pytest.raises(SetupError, match="No greeting came"):
        Greeting.parse(line)


def test_a_process_that_nobody_greets_ends() -> None:
    alone = subprocess.run(
        [sys.executable, "-m", "pyhudi.spark.gateway"], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert alone.returncode == 1
    assert alone.stderr.strip() == (
        "[SETUP_ERROR] No greeting came on stdin. The jar starts pyhudi.spark.gateway and sends "
        "one; do not start it yourself."
    )


def test_it_ends_with_its_stdin_whatever_it_is_doing(tmp_path: Path) -> None:
    busy = (
        "import threading, time\n"
        "import pyarrow as pa\n"
        "from pyhudi.application.handed_files import FILES\n"
        "from pyhudi.spark import gateway\n"
        "def serve(connected):\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "    FILES.make('plan', pa.table({'n': [1]}))\n"
        "    print('serving', flush=True)\n"
        "gateway.connect, gateway.register = (lambda greeting: None), serve\n"
        "gateway.main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", busy],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(b'{"port": 1, "token": "t"}\n')
            process.stdin.flush()
            assert process.stdout.readline() == b"serving\n"
            assert list(tmp_path.iterdir())
            process.stdin.close()
            assert process.wait(60) == 0
            assert not list(tmp_path.iterdir())
        finally:
            process.kill()
