"""A proxy in front of a Redis, which delays its answers, or cuts a connection at a chosen command."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.redis_server import RedisServer


class RedisProxy:
    """A proxy on a free port. Its attributes may be changed while connections are open.

    `delay_s` is how late each answer is. `cut(pattern, after)` ends the connection of the first command that
    contains the pattern, after so many others that contain it, and does not pass this command on.
    """

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.delay_s = 0.0
        self.cuts = 0  # connections that were ended
        self._pattern, self._left = b"", 0
        self._loop = asyncio.new_event_loop()
        self._port = 0
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._listener = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def cut(self, pattern: bytes, after: int) -> None:
        self._left, self._pattern = after, pattern

    async def _listen(self) -> asyncio.Server:
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = listener.sockets[0].getsockname()[1]
        return listener

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, commands = await asyncio.open_connection("127.0.0.1", self._server.port)
        except OSError:
            writer.close()
            return
        ways = (self._commands(reader, commands), self._answers(answers, writer))
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass  # by `close`; asyncio would log a task that ends so
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            commands.close()
            writer.close()

    async def _commands(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while command := await reader.read(2**20):
            if self._pattern and self._pattern in command:
                if self._left == 0:
                    self._pattern = b""
                    self.cuts += 1
                    return
                self._left -= 1
            writer.write(command)

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while answer := await reader.read(2**20):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            writer.write(answer)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._listener.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def proxied(server: RedisServer) -> Iterator[RedisProxy]:
    proxy = RedisProxy(server)
    try:
        yield proxy
    finally:
        proxy.close()
