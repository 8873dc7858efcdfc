"""A fake resolver and a recording dialer for tests of the egress."""

import socket
import ssl
from collections.abc import Mapping, Sequence

from euterpe.net.dialer import system_dial

# A context that trusts no certificate authority, because loading the system's authorities is slow for a test.
NO_TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class FakeResolver:
    """A resolver that returns the answers of a table in turn, and then repeats the last answer."""

    def __init__(self, table: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._table = table
        self.lookups: list[str] = []

    def __call__(self, host: str) -> Sequence[str]:
        self.lookups.append(host)
        if host not in self._table:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = self._table[host]
        return answers[min(self.lookups.count(host), len(answers)) - 1]


class RecordingDialer:
    """A dialer that records each address and connects to a server on loopback instead."""

    def __init__(self, port: int | None = None) -> None:
        self._port = port
        self.dialled: list[tuple[str, int]] = []

    def __call__(self, address: str, port: int, timeout_s: float) -> socket.socket:
        self.dialled.append((address, port))
        if self._port is None:
            raise ConnectionRefusedError
        return system_dial("127.0.0.1", self._port, timeout_s)
