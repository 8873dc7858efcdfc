"""A TCP proxy in front of an API process, which keeps all bytes of both directions."""

import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from tests.net.servers import Server

_CALL = re.compile(rb"POST /internal/worker/([a-z]+) HTTP/1.1\r\n")


class RecordingProxy:
    """A proxy in front of a server on loopback. A test may change `server` for the next connections."""

    def __init__(self, server: str) -> None:
        self.server, self.url = server, ""
        self._requests: list[bytearray] = []
        self._answers: list[bytearray] = []

    @property
    def places(self) -> dict[str, bytes]:
        """Return the bytes of each connection, for `find_leaks`."""
        return {
            f"{kind} {number}": bytes(stream)
            for kind, streams in (("request", self._requests), ("answer", self._answers))
            for number, stream in enumerate(streams)
        }

    @property
    def calls(self) -> Counter[str]:
        """Return how often each call of the worker's contract was requested."""
        return Counter(name.decode() for stream in [*self._requests] for name in _CALL.findall(stream))

    def serve(self, _: Server, worker: socket.socket) -> None:
        requests, answers = bytearray(), bytearray()
        self._requests.append(requests)
        self._answers.append(answers)
        with socket.create_connection(("127.0.0.1", urlsplit(self.server).port)) as api:
            back = threading.Thread(target=_pass_on, args=(api, worker, answers))
            back.start()
            _pass_on(worker, api, requests)
            back.join()


def _pass_on(source: socket.socket, target: socket.socket, record: bytearray) -> None:
    """Send all bytes of `source` to `target`, and then the end of the stream."""
    with suppress(OSError):  # one of the two was killed
        while data := source.recv(65536):
            record += data
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def recording_proxy(server: str) -> Iterator[RecordingProxy]:
    proxy = RecordingProxy(server)
    with Server(proxy.serve) as listening:
        proxy.url = f"http://{listening.pair}"
        yield proxy
