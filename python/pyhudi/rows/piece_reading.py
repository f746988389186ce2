"""What the workers of all reads have in common: a task is a list of pieces, each of some files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeVar

import pyarrow as pa

from pyhudi.errors import HistoryExpired, StorageError
from pyhudi.format.corruption import corrupt
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.rows.task import Batches, telling

#: rows of one batch of an answer
BATCH_ROWS: Final = 16_384
Piece = TypeVar("Piece")


def reading_pieces(
    place: FileSystemSpec,
    pieces: Sequence[Sequence[Piece]],
    rows_of: Callable[[pa.fs.FileSystem, Piece], Batches],
) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that gives ``rows_of`` each piece of a task."""

    def read(batches: Batches) -> Batches:
        filesystem = place.open()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for piece in pieces[number]:
                    yield from rows_of(filesystem, piece)

    return telling(read)


def reading(instant: str, paths: str) -> AbstractContextManager[None]:
    """Tells what fails below it as an error of the files ``paths``, read for a commit's changes."""
    return telling_files(
        paths,
        f"The changes of the commit {instant} need {paths}, and one of these files is gone: a "
        "clean or a rollback has deleted it since. Run the query again. If a clean took the file, "
        "let the range begin at this commit or later, or keep more commits "
        "(hoodie.clean.commits.retained) than your readers lag behind.",
        instant,
    )


@contextmanager
def telling_files(paths: str, gone: str, asked: str | None) -> Iterator[None]:
    """Tells what fails below it as an error of the files ``paths``.

    ``gone`` is the message if one is missing, ``asked`` the instant that was asked for.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise HistoryExpired(gone, asked=asked, earliest=None) from error
    except pa.ArrowInvalid as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise corrupt(paths, "a base file is a whole Parquet file", reason) from error
    except OSError as error:
        raise StorageError(
            f"A data file could not be read: {' '.join(str(error).split())}. Read again when the "
            "storage answers."
        ) from error
