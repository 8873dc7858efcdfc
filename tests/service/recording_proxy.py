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
        self._recorded, self._is_open = threading.Condition(), threading.Event()
        self._is_open.set()

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

    @contextmanager
    def held(self) -> Iterator[None]:
        """Record the requests of the worker, but forward them only after the end of the block."""
        self._is_open.clear()
        try:
            yield
        finally:
            self._is_open.set()

    def await_request(self, part: bytes, timeout_s: float = 60.0) -> None:
        """Wait for a request that contains `part`."""
        with self._recorded:
            found = self._recorded.wait_for(
                lambda: any(part in stream for stream in self._requests), timeout_s
            )
        assert found, f"no request contains {part!r}"

    def serve(self, _: Server, worker: socket.socket) -> None:
        requests, answers = bytearray(), bytearray()
        self._requests.append(requests)
        self._answers.append(answers)
        with socket.create_connection(("127.0.0.1", urlsplit(self.server).port)) as api:
            back = threading.Thread(target=self._pass_on, args=(api, worker, answers))
            back.start()
            self._pass_on(worker, api, requests, self._is_open)
            back.join()

    def _pass_on(
        self,
        source: socket.socket,
        target: socket.socket,
        record: bytearray,
        is_open: threading.Event | None = None,
    ) -> None:
        """Send all bytes of `source` to `target`, and then the end of the stream."""
        with suppress(OSError):  # the worker or the server was killed
            while data := source.recv(65536):
                with self._recorded:
                    record += data
                    self._recorded.notify_all()
                if is_open is not None:
                    is_open.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def recording_proxy(server: str) -> Iterator[RecordingProxy]:
    proxy = RecordingProxy(server)
    with Server(proxy.serve) as listening:
        proxy.url = f"http://{listening.pair}"
        yield proxy
