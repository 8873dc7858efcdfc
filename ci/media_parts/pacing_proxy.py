"""A TCP proxy on loopback that limits the bytes per second in each direction, over all connections."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE_BYTES = 65_536


class _Pace:
    """A rate limit: `take` waits until `size` further bytes may pass."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate, self._free_at = bytes_per_second, 0.0

    async def take(self, size: int) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + size / self._rate
        if (wait := self._free_at - now) > 0:
            await asyncio.sleep(wait)


@contextmanager
def pacing_proxy(port: int, bytes_per_second: float) -> Iterator[int]:
    """Yield the port of a proxy that forwards to `port` on loopback."""
    loop, started = asyncio.new_event_loop(), threading.Event()
    ports: list[int] = []

    async def serve() -> None:
        up, down = _Pace(bytes_per_second), _Pace(bytes_per_second)

        async def on_connection(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
            server, to_server = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pass(client, to_server, up), _pass(server, to_client, down))

        server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        started.set()
        await server.serve_forever()

    def work() -> None:
        asyncio.set_event_loop(loop)
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(serving)

    serving = loop.create_task(serve())
    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join()
        loop.close()


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter, pace: _Pace) -> None:
    with suppress(ConnectionError):
        while piece := await source.read(_PIECE_BYTES):
            await pace.take(len(piece))
            target.write(piece)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()
            return
    target.close()
