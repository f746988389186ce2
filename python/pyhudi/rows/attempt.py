"""How a worker holds its attempt: the attempt does not end as long as the worker may write.

Spark can end an attempt while its worker still runs. Files that the worker then writes would stay
after the commit. So the shim's ``HeldAttempts`` makes a file for each attempt; a worker that writes
locks it, and the end of the attempt waits for the lock. This module is sent to executors by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]


def held(work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """``work`` for a stage of ``HeldAttempts``: it holds its attempt from start to end.

    ``RuntimeError`` if the attempt has already ended; then nothing is read or written.
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
            # The process id is written before the lock: it says who holds a locked file.
            os.write(descriptor, str(os.getpid()).encode())
            # An fcntl lock: the only kind that Java knows, and it ends with the process.
            fcntl.lockf(descriptor, fcntl.LOCK_EX)
            if not os.fstat(descriptor).st_nlink:
                raise RuntimeError("this attempt has ended while its worker began")
            yield from work(batches)
        finally:
            os.close(descriptor)

    return run
