"""A proxy in front of a Redis, which delays its answers, or cuts a connection at a chosen command."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from tests.redis_server import RedisServer


class RedisProxy:
    """A proxy on a free port. Its attributes may be changed while connections are open.

    `delay_s` delays each answer.
    """

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.delay_s = 0.0
        self.cuts = 0  # connections that `cut` has ended
        self.port = 0
        self._pattern, self._left = b"", 0
        self._passes_on = False
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._listener = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> "redis.Redis":
        return redis.Redis.from_url(self.url, decode_responses=True, protocol=2)

    def cut(self, pattern: bytes, after: int) -> None:
        """Forward `after` commands that contain this pattern, and close the connection of the next one.

        The proxy does not forward this next command.
        """
        self._left, self._passes_on, self._pattern = after, False, pattern

    def lose_answer(self, pattern: bytes) -> None:
        """Forward the first command with this pattern. Close its connection before the answer."""
        self._left, self._passes_on, self._pattern = 0, True, pattern

    def switch(self, server: RedisServer) -> None:
        """End all connections. New connections lead to another server, as after a failover."""

        async def end() -> None:
            self._server = server
            await self._end_connections()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()

    async def _listen(self) -> asyncio.Server:
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        return listener

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._pass_on(reader, writer)
        finally:
            self._connections.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, commands = await asyncio.open_connection("127.0.0.1", self._server.port)
        except OSError:
            writer.close()
            return
        self._writers |= {commands, writer}
        ways = (self._commands(reader, commands), self._answers(answers, writer))
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass  # otherwise asyncio would log that the task was canceled
        finally:
            for task in tasks:
                task.cancel()
            commands.close()
            writer.close()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _commands(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while command := await reader.read(2**20):
            if self._pattern and self._pattern in command:
                if self._left == 0:
                    self._pattern = b""
                    if self._passes_on:
                        await self._carry_out(command)
                    self.cuts += 1
                    return
                self._left -= 1
            writer.write(command)

    async def _carry_out(self, command: bytes) -> None:
        """Send a command on a connection of its own, and wait for its answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        self._writers.add(writer)
        writer.write(command)
        await reader.read(2**20)
        writer.close()

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
        # The task of a connection that was just accepted has not begun, and is not in `_connections` yet.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()  # `close` would wait for a peer that reads nothing
        await asyncio.sleep(0)

    async def _end_connections(self) -> None:
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


@contextmanager
def proxied(server: RedisServer) -> Iterator[RedisProxy]:
    proxy = RedisProxy(server)
    try:
        yield proxy
    finally:
        proxy.close()
