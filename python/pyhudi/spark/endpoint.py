"""The Python end of the bridge: it answers the shim's questions.

Every call carries the session's secret, because the callback socket itself has none. Only strings
cross the bridge: the JSON of ``spark/protocol.py``.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable
from typing import Any, ClassVar

from pyhudi.application.handed_files import FILES
from pyhudi.errors import RACES, HudiError
from pyhudi.recent import Recent
from pyhudi.spark.interrupts import INTERRUPTS
from pyhudi.spark.protocol import QUESTIONS, Asked, Failure
from pyhudi.spark.questions import Target
from pyhudi.spark.wire import decode, encode
from pyhudi.writes.stage import innermost_cause

log = logging.getLogger(__name__)

#: (a JVM object if the question brings one, the table, the question's own part) -> its answer
Handler = Callable[..., Any]


class Endpoint:
    """Registered with the JVM as ``io.pyhudi.Planner``."""

    class Java:
        """The name of the interface, for py4j."""

        implements: ClassVar[list[str]] = ["io.pyhudi.Planner"]

    def __init__(self, secret: str, handlers: dict[str, Handler]) -> None:
        self._secret = secret
        self._handlers = handlers

    def call(self, secret: str, method: str, payload: str) -> str:
        """Answer the question ``method`` with the arguments in ``payload``."""
        return self._told(secret, method, payload)

    def callWith(  # noqa: N802 - the interface's name
        self, secret: str, method: str, jvm_object: Any, payload: str
    ) -> str:
        """The same with a live JVM object, such as a DataFrame."""
        return self._told(secret, method, payload, jvm_object)

    def toString(self) -> str:  # noqa: N802 - py4j asks for it
        return "pyhudi planner"

    def _told(self, secret: str, method: str, payload: str, *objects: Any) -> str:
        def answer() -> str:
            INTERRUPTS.begin(method)
            return INTERRUPTS.end(method, self._answer(secret, method, payload, *objects))

        return FILES.answering(answer)

    def _answer(self, secret: str, method: str, payload: str, *objects: Any) -> str:
        if not hmac.compare_digest(str(secret).encode(), self._secret.encode()):
            return _error("SetupError", "[SETUP_ERROR] The call carries a wrong secret.")
        asked, handler = QUESTIONS.get(method), self._handlers.get(method)
        if asked is None or handler is None:
            return _error(
                "SetupError",
                f"[SETUP_ERROR] The jar asks for '{method}', which this pyhudi does not know: the "
                "jar and the Python package are of different versions. Install one version of "
                "both.",
            )
        try:
            request = decode(Asked, json.loads(payload), method)
            ask = decode(asked.ask, request.ask, f"{method}.ask")
            return encode({"ok": handler(*objects, Target.at(request.place), ask)})
        except HudiError as e:
            LAST_ERROR.keep(e)
            again_in_ms = e.again_in_ms if isinstance(e, RACES) else None
            return _error(type(e).__name__, str(e), again_in_ms)
        except Exception as e:
            log.debug("%s failed", method, exc_info=True)
            return _error(
                type(e).__name__,
                f"[INTERNAL] {type(e).__name__}: {innermost_cause(str(e)).rstrip('.')}. This is an "
                "error in pyhudi. Please report it, with the DEBUG log of "
                "logging.getLogger('pyhudi').",
            )


class _Kept(dict[str, Any]):
    """The objects that the JVM may call; requests to forget one have no effect."""

    def __delitem__(self, key: str) -> None:
        if not isinstance(self[key], Endpoint):
            super().__delitem__(key)


def keep_endpoints(gateway: Any) -> None:
    """Make py4j's callback server keep all endpoints.

    Its socket accepts "forget this object" from any program on the machine, without a secret.
    """
    pool = gateway.gateway_property.pool
    with pool.lock:
        if not isinstance(pool.dict, _Kept):
            pool.dict = _Kept(pool.dict)


class _LastError:
    """The typed errors behind messages that Spark raises, for Python callers."""

    def __init__(self, limit: int = 64) -> None:
        self._errors: Recent[str, HudiError] = Recent(limit)

    def keep(self, error: HudiError) -> None:
        self._errors.put(str(error), error)

    def find(self, text: str) -> HudiError | None:
        """The latest error whose message is in ``text``; Spark may have added to the text."""
        for message in reversed(self._errors.kept()):
            if message in text:
                return self._errors.get(message)
        return None


LAST_ERROR = _LastError()


def _error(kind: str, message: str, again_in_ms: int | None = None) -> str:
    return encode({"error": Failure(kind, message, again_in_ms)})
