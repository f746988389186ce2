"""Ctrl-C, and the stop button of a notebook: they cancel the statement that runs.

In a program that attached, the planner answers on the program's own main thread, in the middle of
py4j's conversation with the JVM. A ``KeyboardInterrupt`` raised there would leave that conversation
half done, and the JVM would go on and commit. So while a statement runs, the signal only makes its
Spark jobs end. The planner sees that the write is cancelled, undoes it and answers; the
``KeyboardInterrupt`` comes when the statement has ended.
"""

from __future__ import annotations

import _thread
import gc
import json
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

from pyhudi.spark.protocol import LOOKS, QUESTIONS, Failure
from pyhudi.spark.wire import encode

log = logging.getLogger(__name__)

#: so often it must come until the program is left with the statement half done
LAST: Final = 3
_AGAIN_S: Final = 0.2
#: after these questions Spark evaluates or writes rows, until one of the others ends the statement
_OPENS: Final = ("check_row_changes", "spool_begin")
ABORTS: Final = "spool_abort"
_CLOSES: Final = ("insert_spooled", "change_rows", "delete_where", ABORTS)
_CONVERSATION: Final = "py4j/clientserver.py"
#: in these the program only waits for streams, whose batches run on other threads
_WAITS: Final = ("awaitTermination", "awaitAnyTermination", "processAllAvailable")
NOTHING: Final = "The statement was cancelled. Nothing of it is visible."


class Interrupts:
    """The signal of one program; its state is the statement that the main thread runs.

    ``interrupt`` interrupts the main thread after a statement that could not be cancelled.
    """

    def __init__(self, interrupt: Callable[[], None] = _thread.interrupt_main) -> None:
        self._interrupt = interrupt
        self._cancel: Callable[[], None] | None = None
        self._hang_up: Callable[[], None] | None = None
        self._before: Any = None
        self._outside: Callable[[int, FrameType | None], Any] = signal.default_int_handler
        self._depth = 0
        self._open = False
        self._opened: FrameType | None = None
        self._count = 0
        self._frame: FrameType | None = None
        self._raised: KeyboardInterrupt | None = None
        #: the statement of which the program has not heard yet that it was interrupted
        self._owed: FrameType | None = None

    def install(self, cancel: Callable[[], None], hang_up: Callable[[], None]) -> None:
        """Take the signal from PySpark's handler.

        ``cancel`` ends the Spark jobs of the main thread's statement, ``hang_up`` its connection to
        the JVM. PySpark's handler talks to the JVM by the connection that is in use.
        """
        self._cancel, self._hang_up = cancel, hang_up
        before = signal.getsignal(signal.SIGINT)
        if callable(before) and getattr(before, "__module__", "").endswith(".context"):
            self._outside = before
            signal.signal(signal.SIGINT, self._signalled)

    def told(self) -> bool:
        """Whether the statement that this thread runs was interrupted."""
        return self._count > 0 and _is_main()

    def begin(self, method: str) -> None:
        """A question begins; on the main thread the signal waits for its end."""
        if not _is_main():
            return
        conversation = _conversation(sys._getframe())
        if conversation is not self._frame:
            self._forget()
        if self._open and conversation is not self._opened:
            self._open = False  # a statement that ended without a question: EXPLAIN, an error
            self._restore()
        if self._depth == 0 and signal.getsignal(signal.SIGINT) != self._signalled:
            # A notebook sets its own handler for each cell.
            self._before = signal.signal(signal.SIGINT, self._signalled)
        self._depth += 1

    def end(self, method: str, answer: str) -> str:
        """The question ends; returns the ``answer``, or that the statement was interrupted."""
        if not _is_main():
            return answer
        self._depth -= 1
        found = json.loads(answer) if self._depth == 0 else {}
        if method in _OPENS:
            self._open = "error" not in found
            self._opened = _conversation(sys._getframe())
        if method in _CLOSES:
            self._open = False
        if self._depth > 0 or self._open:
            return answer
        self._restore()
        if self._count == 0 or method == ABORTS:
            return answer  # of an abort Spark knows the cause, which ``take`` replaces
        committed = _instant(found) if _changes(method) else None
        if "ok" in found and committed is None:
            # Of a look nobody knows what the statement did before. It goes on: its jobs end, and a
            # write undoes itself. What is done, such as a DROP TABLE, is interrupted afterwards.
            return answer
        told = _outcome(found, committed)
        self._forget()
        self._owed = None
        if told is None:
            return answer
        # The JVM may ask more before the program hears of it, as to remove the table of a CTAS.
        self._frame, self._raised = _conversation(sys._getframe()), KeyboardInterrupt(told)
        return encode({"error": Failure("WriteFailed", f"[INTERRUPTED] {told}", None)})

    def take(self) -> KeyboardInterrupt | None:
        """What to raise in place of the error of a statement that has ended, once."""
        if not _is_main() or self._depth > 0:
            return None
        raised = self._raised or (KeyboardInterrupt(NOTHING) if self._count else None)
        self._forget()
        if raised is not None:
            self._owed = None
        return raised

    def _forget(self) -> None:
        self._count, self._frame, self._raised = 0, None, None

    def _restore(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        conversation = _conversation(frame)
        if conversation is not self._frame:
            self._forget()
        self._count += 1
        if _waits(frame):
            conversation = None
        if conversation is None or self._count >= LAST:
            self._depth, self._open = 0, False
            outside = self._before if callable(self._before) else self._outside
            self._restore()
            self._forget()
            self._owed = None
            if conversation is None:
                outside(number, frame)  # PySpark's also ends the jobs of other threads
            elif self._hang_up is not None:
                self._hang_up()  # the next statement must not hear the answer to this one
            raise KeyboardInterrupt
        self._frame = self._owed = conversation
        if self._count == 1:
            log.warning(
                "Interrupted: the statement is cancelled, and what it wrote is undone. To leave "
                "that to the next writer, interrupt twice more."
            )
            ends = threading.Thread(target=self._end_jobs, args=(conversation,), daemon=True)
            ends.start()

    def _end_jobs(self, conversation: FrameType) -> None:
        # Again and again: the next job of the statement may have been about to start.
        pause = threading.Event()
        while _conversation(_frame_of_main()) is conversation:
            if self._cancel is not None:
                try:
                    self._cancel()
                except Exception as error:
                    log.debug("its jobs could not be cancelled: %s", error)
            pause.wait(_AGAIN_S)
        pause.wait(_AGAIN_S)
        if self._owed is conversation:
            # It succeeded before it could be cancelled: the program is still to be interrupted.
            self._owed = None
            self._interrupt()


INTERRUPTS: Final = Interrupts()


def _outcome(answer: Any, committed: str | None) -> str | None:
    """What became of a statement that was interrupted, and was ``committed`` or failed.

    None if its own error is to be seen.
    """
    if committed is not None:
        return f"The write was committed as {committed} before it could be cancelled."
    return None if answer["error"]["kind"] == "CommitUnknown" else NOTHING


def _instant(answer: Any) -> str | None:
    done = answer.get("ok")
    return done.get("instant") if isinstance(done, dict) else None


def _changes(method: str) -> bool:
    asked = QUESTIONS.get(method)
    return asked is not None and asked.effect is not LOOKS


def _conversation(frame: FrameType | None) -> FrameType | None:
    """The frame in which the main thread waits for the JVM, or answers it; None if it does not."""
    found = None
    for each in _stack(frame):
        if each.f_code.co_filename.endswith(_CONVERSATION):
            found = each
    return found


def _waits(frame: FrameType | None) -> bool:
    codes = (each.f_code for each in _stack(frame))
    return any(code.co_name in _WAITS and "/pyspark/" in code.co_filename for code in codes)


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """The frame and those that called it, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _frame_of_main() -> FrameType | None:
    # CPython 3.11 holds a lock of all threads meanwhile: if it collected garbage, and Python code
    # came of that, the program could hang for ever.
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(threading.main_thread().ident or 0)
    finally:
        if collects:
            gc.enable()


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
