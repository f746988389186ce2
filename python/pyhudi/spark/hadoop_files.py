"""The shim's ``HadoopFiles`` over py4j, for ``storage.hadoop``: Java's errors become Python's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError

from pyhudi.errors import UnsupportedTable
from pyhudi.storage.hadoop import Refused

_Result = TypeVar("_Result")

#: the first of an error's classes that is named here decides. After an IOException of a rename the
#: shim has looked, and the rename did not happen. After other exceptions nobody has looked.
_ERRORS: Final[dict[str, type[OSError]]] = {
    "java.io.FileNotFoundException": FileNotFoundError,
    "io.pyhudi.HadoopFiles$Taken": FileExistsError,
    "io.pyhudi.HadoopFiles$NoAnswer": ConnectionError,
    "java.io.IOException": Refused,
}


class Py4JHadoopFiles:
    """One table's folder; any number of threads may call."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def authority(self) -> str:
        return str(_raised(self._java.authority))

    def list(self, folder: str, deep: bool) -> str:
        return str(_raised(lambda: self._java.list(folder, deep)))

    def folders(self, folder: str) -> str:
        return str(_raised(lambda: self._java.folders(folder)))

    def exists(self, path: str) -> bool:
        return bool(_raised(lambda: self._java.exists(path)))

    def read(self, path: str) -> bytes:
        return bytes(_raised(lambda: self._java.read(path)))

    def create(self, path: str, temporary: str, data: bytes) -> None:
        _raised(lambda: self._java.create(path, temporary, data))

    def replace(self, path: str, temporary: str, data: bytes) -> None:
        _raised(lambda: self._java.replace(path, temporary, data))

    def delete(self, paths: str) -> None:
        _raised(lambda: self._java.delete(paths))

    def delete_folder(self, folder: str) -> None:
        _raised(lambda: self._java.deleteFolder(folder))

    def delete_empty_folders(self, folder: str) -> None:
        _raised(lambda: self._java.deleteEmptyFolders(folder))


def hadoop_files(jvm: Any, conf: Any, root: str) -> Py4JHadoopFiles:
    """The folder ``root`` through the Hadoop client of ``jvm``, with its configuration ``conf``.

    ``UnsupportedTable`` if the JVM does not know the file system, or cannot set it up.
    """
    try:
        return Py4JHadoopFiles(jvm.io.pyhudi.HadoopFiles.open(root, conf))
    except Py4JJavaError as error:
        scheme = root.partition(":")[0]
        raise UnsupportedTable(
            f"Spark's Hadoop client cannot open '{root}': {_told(error)}. Put the jar of that "
            f"file system on Spark's class path (spark.jars) and set the spark.hadoop.fs.{scheme}.*"
            " settings that it needs.",
            feature=f"{scheme}: file system",
        ) from error


def _raised(call: Callable[[], _Result]) -> _Result:
    try:
        return call()
    except Py4JJavaError as error:
        raise kind_of(error.java_exception)(_told(error)) from error
    except Py4JError as error:
        # The JVM has ended or is ending: nobody knows what it did last.
        raise ConnectionError(f"the JVM does not answer: {error}") from error


def kind_of(thrown: Any) -> type[OSError]:
    """The Python error for a Java exception; by default one with an unknown outcome."""
    cls = thrown.getClass()
    while cls is not None and str(cls.getName()) not in _ERRORS:
        cls = cls.getSuperclass()
    return ConnectionError if cls is None else _ERRORS[str(cls.getName())]


def _class_name(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())


def _told(error: Py4JJavaError) -> str:
    """The first line of Java's message; a server's stack trace may follow it."""
    message = error.java_exception.getMessage()
    first = str(message).strip().partition("\n")[0] if message else ""
    return first.rstrip(".") or _class_name(error)
