"""How a worker holds its attempt: as long as it may write, the attempt does not end.

Spark can end an attempt while its worker still runs, and files that the worker then writes would
remain after the commit. The shim's ``HeldAttempts`` makes a file for each attempt. A worker that
writes locks it, and the attempt's end waits for the lock. This module travels to executors by
value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]


def held(work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """``work`` for a stage of ``HeldAttempts``: it holds its attempt from start to end.

    ``RuntimeError`` where the attempt has ended already; then nothing is read or written.
    """

    def run(batches: Batches) -> Batches:
        import fcntl
        import os

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        folder = os.environ["SPARK_LOCAL_DIRS"].split(",")[0]
        try:
            path = f"{folder}/pyhudi-attempt-{context.taskAttemptId()}"
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            raise RuntimeError("this attempt has ended before its worker began") from None
        try:
            # The number comes before the lock: it tells which process holds a locked file.
            os.write(descriptor, str(os.getpid()).encode())
            # A lock of fcntl's kind: the only one that Java knows, and gone with the process.
            fcntl.lockf(descriptor, fcntl.LOCK_EX)
            if not os.fstat(descriptor).st_nlink:
                raise RuntimeError("this attempt has ended while its worker began")
            yield from work(batches)
        finally:
            os.close(descriptor)

    return run
