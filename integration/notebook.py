"""A notebook of a test: a Jupyter kernel in a process of its own, driven cell by cell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from jupyter_client import BlockingKernelClient, KernelManager
from jupyter_client.kernelspec import KernelSpecManager

from integration.jvm_first import ANSWER_S, Place

_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class Notebook:
    """Runs one cell at a time; ``interrupt`` is its stop button."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager = manager
        self._client = client

    def begin(self, cell: str) -> str:
        """Start a cell, and return its name."""
        return str(self._client.execute(cell))

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def shown(self, cell: str) -> tuple[str, str]:
        """What a cell printed on stdout, and the error that it ended with, or ``""``."""
        text, error = "", ""
        while True:
            message = self._client.get_iopub_msg(timeout=ANSWER_S)
            if message["parent_header"].get("msg_id") != cell:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream" and content["name"] == "stdout":
                text += content["text"]
            if kind == "error":
                error = _COLOURS.sub("", "\n".join(content["traceback"]))
            if kind == "status" and content["execution_state"] == "idle":
                return text.strip(), error

    def run(self, cell: str) -> str:
        """What a cell prints; ``AssertionError`` if it fails."""
        text, error = self.shown(self.begin(cell))
        assert not error, error
        return text


@contextmanager
def notebook(place: Place) -> Iterator[Notebook]:
    """A kernel with the place's Python and settings, which ends with the test."""
    spec = place.folder / "kernels" / "pyhudi"
    spec.mkdir(parents=True)
    command = [str(place.bin / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": command, "display_name": "pyhudi", "language": "python"})
    )
    specs = KernelSpecManager(kernel_dirs=[str(spec.parent)], ensure_native_kernel=False)
    manager = KernelManager(
        kernel_name="pyhudi", kernel_spec_manager=specs,
        connection_file=str(place.folder / "kernel-connection.json"),
    )  # fmt: skip
    with (place.folder / "log").open("ab") as noise:
        manager.start_kernel(
            env=place.environment(), cwd=str(place.folder), stdout=noise, stderr=noise
        )
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=ANSWER_S)
        yield Notebook(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
        manager.context.term()
