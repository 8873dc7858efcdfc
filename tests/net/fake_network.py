"""The seams of the egress, for tests: a resolver that knows what it is told, a dialer that keeps a record."""

import socket
import ssl
from collections.abc import Mapping, Sequence

from euterpe.net.dialer import system_dial

# Trusts nobody: to load the authorities of the system takes longer than most of these tests.
NO_TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Names:
    """Answers from a table; a list of lists is given out one by one, the last one for ever."""

    def __init__(self, table: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._table = table
        self.asked: list[str] = []

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        if host not in self._table:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = self._table[host]
        return answers[min(self.asked.count(host), len(answers)) - 1]


class Record:
    """Connects to a server on loopback, whatever address was to be dialled, and writes that one down."""

    def __init__(self, port: int | None = None) -> None:
        self._port = port
        self.dialled: list[tuple[str, int]] = []

    def __call__(self, address: str, port: int, timeout_s: float) -> socket.socket:
        self.dialled.append((address, port))
        if self._port is None:
            raise ConnectionRefusedError
        return system_dial("127.0.0.1", self._port, timeout_s)
