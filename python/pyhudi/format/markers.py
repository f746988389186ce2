"""Marker files: they name the data files of a write, in case it must be undone.

Rules: spec/markers.md M1.

A marker stands for one data file and is written before it, so all files of a failed write are
known. There are two forms: an empty file for each marker, or lines in a few files that a server in
the driver keeps. This module is sent to executors by value; of pyhudi it imports only errors.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import Enum

from pyhudi.errors import TableCorrupt

FOLDER = ".hoodie/.temp"
TYPE_FILE = "MARKERS.type"
LIST_PREFIX = "MARKERS"
#: longer than any name that a storage accepts
MOST_MARKER_BYTES = 2_048


class MarkerKind(str, Enum):
    """The kind of data file: a new group's base file, a group's next base file, a log file."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


class MarkerForm(str, Enum):
    """How the markers of one instant are stored."""

    DIRECT = "DIRECT"
    TIMELINE_SERVER_BASED = "TIMELINE_SERVER_BASED"


@dataclass(frozen=True, slots=True)
class Marker:
    """A data file, relative to the table, and its kind."""

    data_path: str
    kind: MarkerKind

    def render(self) -> str:
        """``<data path>.marker.<kind>``, the name below the instant's marker folder."""
        return f"{self.data_path}.marker.{self.kind.value}"


def marker_folder(instant: str) -> str:
    """The folder of an instant's markers, relative to the table."""
    return f"{FOLDER}/{instant}"


def marker_path(instant: str, data_path: str, kind: MarkerKind) -> str:
    """The direct marker of a data file, relative to the table; its file is empty."""
    return f"{marker_folder(instant)}/{Marker(data_path, kind).render()}"


def parse_marker(text: str) -> Marker | None:
    """The marker that a path below the marker folder names; ``None`` for other files."""
    data_path, separator, kind = text.rpartition(".marker.")
    if not separator or not data_path or kind not in MarkerKind.__members__:
        return None
    return Marker(data_path, MarkerKind(kind))


def marker_fault(text: str) -> str | None:
    """Why ``text`` cannot be a marker in a list, ``None`` if it can.

    A valid marker is one line of a ``MARKERS<n>`` file, and names a file in the table but not in
    its ``.hoodie`` folder.
    """
    marker = parse_marker(text)
    if marker is None:
        return "it does not end in .marker.CREATE, .marker.MERGE or .marker.APPEND"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "it is not valid text"
    if size > MOST_MARKER_BYTES:
        return f"it has {size} bytes, more than {MOST_MARKER_BYTES}"
    if not text.isprintable() and any(unicodedata.category(sign) == "Cc" for sign in text):
        return "it holds a control character"
    parts = marker.data_path.split("/")
    if "\\" in text or parts[0] == ".hoodie" or any(part in ("", ".", "..") for part in parts):
        return "it does not lead to a data file inside the table"
    return None


def is_marker_list(name: str) -> bool:
    """Whether a file directly in the marker folder is a timeline server's list of markers."""
    number = name.removeprefix(LIST_PREFIX)
    return name.startswith(LIST_PREFIX) and number.isascii() and number.isdecimal()


def parse_marker_list(data: bytes, path: str) -> list[Marker]:
    """The markers in a ``MARKERS<n>`` file, one on each line.

    A crash may leave the last line without its line end; it counts if the marker is complete.
    ``TableCorrupt`` for any other line that is not a marker.
    """
    lines = data.decode("utf-8", "replace").split("\n")
    markers = []
    for number, line in enumerate(lines):
        marker = parse_marker(line)
        if marker is not None:
            markers.append(marker)
        elif line and number < len(lines) - 1:
            raise TableCorrupt(
                f"'{path}' breaks the rule \"each line is one marker\": line {number + 1} is "
                f"'{line[:120]}'. Nothing was deleted. Let the writer that made it roll back.",
                path=path,
                rule="each line is one marker",
            )
    return markers


def render_marker_list(markers: list[Marker]) -> bytes:
    """The text of a ``MARKERS<n>`` file."""
    return "".join(marker.render() + "\n" for marker in markers).encode()


def parse_marker_form(data: bytes, path: str) -> MarkerForm:
    """The text of ``MARKERS.type``; a folder without that file holds direct markers."""
    text = data.decode("utf-8", "replace").strip()
    if text not in MarkerForm.__members__:
        raise TableCorrupt(
            f"'{path}' breaks the rule \"MARKERS.type names a form of markers\": it says "
            f"'{text[:80]}'. Nothing was deleted. Let the writer that made it roll back.",
            path=path,
            rule="MARKERS.type names a form of markers",
        )
    return MarkerForm(text)


def render_marker_form(form: MarkerForm) -> bytes:
    """The bytes of ``MARKERS.type``, without a line end, as Hudi writes it."""
    return form.value.encode()
