"""A keep-alive connection of a simulated worker: raw HTTP/1.1, one request at a time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")
_CLOSES = re.compile(rb"(?i)\r\nconnection: *close")


class Answer(NamedTuple):
    status: int
    body: bytes

    def document(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self.body)
        return found


class HttpConnection:
    """A connection that the first request opens. If it is lost, the next request opens a new connection."""

    def __init__(self, address: tuple[str, int], api_key: str) -> None:
        self._address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._head = (
            f" HTTP/1.1\r\nhost: {address[0]}:{address[1]}\r\nauthorization: Bearer {api_key}\r\n"
            "content-type: application/json\r\neuterpe-protocol: 1\r\ncontent-length: "
        )

    @property
    def is_open(self) -> bool:
        """Return whether a connection is open and the server has not closed it."""
        reader = self._streams and self._streams[0]
        return reader is not None and not reader.at_eof() and reader.exception() is None

    async def post(self, path: str, values: Mapping[str, Any]) -> Answer:
        """Send a request and return the answer. Raise `OSError` if the connection fails."""
        try:
            reader, writer = await self._open()
            body = json.dumps(values)
            writer.write(f"POST {path}{self._head}{len(body)}\r\n\r\n{body}".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            answer = Answer(int(head[9:12]), await reader.readexactly(int(length[1]) if length else 0))
        except asyncio.IncompleteReadError:
            self.close()
            raise ConnectionError("the server ended the connection") from None
        except BaseException:
            self.close()
            raise
        if _CLOSES.search(head):
            self.close()
        return answer

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not self.is_open:
            self.close()
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
