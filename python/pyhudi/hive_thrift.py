"""Connections to a Hive Metastore's Thrift service, for its locks and its entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

try:
    from pymetastore.hive_metastore import ThriftHiveMetastore
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TException
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport
except ImportError:
    if not TYPE_CHECKING:
        ThriftHiveMetastore = None


def connect(uris: Sequence[str], answer_s: float, greet: Callable[[Any], None]) -> tuple[Any, Any]:
    """Transport and client of the first metastore that answers what ``greet`` asks of a client.

    ``uris`` are ``thrift://host:port``, tried in turn; an answer may take ``answer_s`` seconds.
    ``ConnectionError`` with the reason of each where none answers.
    """
    reasons = []
    for uri in uris:
        address = urlsplit(uri)
        socket = TSocket(address.hostname, address.port)
        socket.setTimeout(answer_s * 1_000)
        transport = TBufferedTransport(socket)
        try:
            transport.open()
            client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))
            greet(client)
        except (TException, OSError) as error:
            transport.close()
            reasons.append(f"{uri}: {error}")
            continue
        return transport, client
    raise ConnectionError("; ".join(reasons))
