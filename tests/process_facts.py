"""What the kernel knows of processes: their sockets, threads and ancestry (Linux's ``/proc``)."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_LISTENING, _ESTABLISHED = "0A", "01"
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def listens(pid: int) -> set[tuple[str, int]]:
    """Address and port of each socket on which a process listens."""
    return {local for local, _, state in _sockets(pid) if state == _LISTENING}


def connected_ports(pid: int) -> set[int]:
    """The ports at the other end of a process's connections."""
    return {remote[1] for _, remote, state in _sockets(pid) if state == _ESTABLISHED}


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def marked(mark: str) -> dict[int, str]:
    """Command by process id of the processes whose environment has ``mark`` in it."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if command:  # a zombie has none
                    found[int(folder.name)] = command
        except OSError:
            continue
    return found


def eventually(holds: Callable[[], bool], within_s: float = 30.0) -> bool:
    """Whether a condition came to hold within the time."""
    give_up = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.05)
    return True


def answer_to(port: int, words: bytes) -> bytes:
    """What a stranger who says ``words`` to a port of this machine hears until it is hung up on."""
    heard = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
        try:
            stranger.sendall(words)
            stranger.shutdown(socket.SHUT_WR)
            while more := stranger.recv(4096):
                heard += more
        except ConnectionError:
            pass
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # it has hung up already
                raise
    return heard


def _sockets(pid: int) -> Iterator[tuple[tuple[str, int], tuple[str, int], str]]:
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    for table in _TABLES:
        for row in table.read_text().splitlines()[1:]:
            fields = row.split()
            if fields[9] in inodes:
                yield _address(fields[1]), _address(fields[2]), fields[3]


def _address(text: str) -> tuple[str, int]:
    """``0100007F:1F90`` is 127.0.0.1 and port 8080: words of four bytes, each turned round."""
    host, _, port = text.partition(":")
    raw = b"".join(bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, len(host), 8))
    raw = raw.removeprefix(bytes(10) + b"\xff\xff")  # IPv4 by a socket of IPv6
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, raw), int(port, 16)
