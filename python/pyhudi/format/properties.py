"""Java ``Properties`` text, the form of ``hoodie.properties`` and of partition metadata.

Bytes are latin-1 with ``\\uXXXX`` escapes of UTF-16 units, exactly what java.util.Properties loads
and stores; ``parse`` of ``render`` is the identity.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping

from pyhudi.format.corruption import corrupt

#: the path of a table's properties in its folder
PATH = ".hoodie/hoodie.properties"

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
_SPECIAL = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"} | {
    char: "\\" + char for char in "=:#!"
}


def parse_properties(data: bytes, path: str) -> dict[str, str]:
    """Keys and values, in file order; a later line of the same key wins.

    ``TableCorrupt`` for a broken ``\\u`` escape, which Java also refuses.
    """
    pairs: dict[str, str] = {}
    for line in _logical_lines(data.decode("latin-1")):
        key, value = _split(line)
        pairs[_unescape(key, path)] = _unescape(value, path)
    return pairs


def _logical_lines(text: str) -> Iterable[str]:
    """Lines without comments and blanks; an odd number of closing backslashes joins lines."""
    pending = ""
    for raw in _LINE_END.split(text):
        line = raw.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            continue
        closing = len(line) - len(line.rstrip("\\"))
        if closing % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    """Cut at the first ``=``, ``:`` or blank that no backslash escapes."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str, path: str) -> str:
    if "\\" not in text:
        return text

    def plain(found: re.Match[str]) -> str:
        body = found.group(1)
        if body == "u":
            raise corrupt(path, r"\u is followed by four hexadecimal digits", f"'{text[:80]}'")
        if len(body) == 5:
            return chr(int(body[1:], 16))
        return _LETTERS.get(body, body)

    units = _ESCAPE.sub(plain, text)
    # A pair of surrogates, written as two escapes, becomes one character.
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def render_properties(values: Mapping[str, str], comment_lines: Iterable[str] = ()) -> bytes:
    """The file's bytes; comment lines come without ``#``, each one line of ASCII."""
    lines = [f"#{comment}" for comment in comment_lines]
    lines += [f"{_escape(key, True)}={_escape(value, False)}" for key, value in values.items()]
    return "".join(line + "\n" for line in lines).encode("ascii")


def _escape(text: str, is_key: bool) -> str:
    parts: list[str] = []
    for position, char in enumerate(text):
        if char == " ":
            parts.append("\\ " if is_key or position == 0 else " ")
        elif char in _SPECIAL:
            parts.append(_SPECIAL[char])
        elif " " < char <= "~":
            parts.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass").hex().upper()
            parts += ["\\u" + units[at : at + 4] for at in range(0, len(units), 4)]
    return "".join(parts)


def table_checksum(database: str, name: str) -> int:
    """``hoodie.table.checksum``: CRC-32 of ``<database>.<name>``, unsigned.

    Rules: spec/properties.md P3.
    """
    return zlib.crc32(f"{database}.{name}".encode())
