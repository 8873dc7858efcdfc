"""A real redis-server for tests: a private port and folder, and an append-only file that survives SIGKILL."""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.engines import free_port

_START_S = 30.0


class RedisServer:
    def __init__(self, folder: Path, *, fsync: str = "everysec") -> None:
        self._folder, self._fsync, self.port = folder, fsync, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def launch(self) -> None:
        """Start the server, on the data that an earlier start has left."""
        program = shutil.which("redis-server")
        assert program is not None, "redis-server is not installed: ci/setup installs it"
        self._process = subprocess.Popen(
            [
                program,
                *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)),
                *("--appendonly", "yes", "--appendfsync", self._fsync, "--save", ""),
                *("--maxmemory-policy", "noeviction", "--loglevel", "warning"),
            ],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _START_S
        with redis.Redis.from_url(self.url) as client:
            while True:
                try:
                    client.ping()
                except (redis.ConnectionError, redis.BusyLoadingError):
                    assert time.monotonic() < deadline, "redis-server has not started"
                    time.sleep(0.02)
                else:
                    return

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop the process without an end: calls are accepted and never answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(30)
            self._process = None

    def client(self) -> "redis.Redis":
        return redis.Redis.from_url(self.url, decode_responses=True)


@contextmanager
def running_redis(folder: Path, *, fsync: str = "everysec") -> Iterator[RedisServer]:
    server = RedisServer(folder, fsync=fsync)
    server.launch()
    try:
        yield server
    finally:
        server.stop()
