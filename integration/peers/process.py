"""A child process that answers one JSON line for each JSON line that it is sent.

Invariant: the child dies with its parent. Its stdin closes, its loop ends, and with it the JVM.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

START_SECONDS = 300
CALL_SECONDS = 600


class PeerError(Exception):
    """The peer raised; ``kind`` is the class name there and ``text`` its message."""

    def __init__(self, peer: str, kind: str, text: str) -> None:
        super().__init__(f"{peer}: {kind}: {text}")
        self.kind = kind
        self.text = text


class LineProcess:
    """One child process. Calls are answered in order; one thread at a time may call."""

    def __init__(
        self, name: str, command: Sequence[str], env: Mapping[str, str], log: Path
    ) -> None:
        """Start ``command`` in ``env`` and wait until it is ready; its noise goes to ``log``."""
        self.name = name
        self.log = log
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        with log.open("ab") as noise:
            self._child = subprocess.Popen(
                command, env=dict(env), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=noise, text=True, bufsize=1,
            )  # fmt: skip
        threading.Thread(target=self._listen, daemon=True).start()
        self._answer(START_SECONDS)

    @property
    def pid(self) -> int:
        """The child's process id; the JVM is among its descendants."""
        return self._child.pid

    def call(self, method: str, timeout: float = CALL_SECONDS, **params: Any) -> Any:
        """Ask for ``method`` and wait; raises PeerError with what the peer raised."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"method": method, "params": params}) + "\n")
        self._child.stdin.flush()
        return self._answer(timeout)

    def close(self) -> None:
        """Let the child end by closing its stdin; kill it if it will not."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        try:
            self._child.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _listen(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _answer(self, timeout: float) -> Any:
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            self._child.kill()
            raise PeerError(self.name, "Timeout", f"no answer in {timeout:g} s") from None
        if not line:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise PeerError(self.name, "Died", f"the process ended; its log ends with\n{tail}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(self.name, answer["error"]["kind"], answer["error"]["text"])
        return answer["ok"]


def claim_stdout() -> TextIO:
    """In a child: keep stdout for answers and send everything else printed there to stderr.

    The JVM inherits file descriptor 1, so that is moved, not only ``sys.stdout``.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


def serve(answers: TextIO, methods: Mapping[str, Callable[..., Any]]) -> None:
    """In a child: say ready, then answer lines until stdin ends."""
    answers.write('{"ok": "ready"}\n')
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"ok": methods[request["method"]](**request["params"])}
        except Exception as error:
            traceback.print_exc()
            reply = {"error": {"kind": type(error).__name__, "text": str(error)}}
        answers.write(json.dumps(reply) + "\n")
