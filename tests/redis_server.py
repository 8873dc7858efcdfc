"""A real redis-server with its own data directory. A test may kill the server and start it again."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from tests.free_port import free_port

_START_S = 30.0
_PAUSE_S = 0.005


class RedisServer:
    """A Redis server on a free port of the loopback address, with an append-only file.

    `fsync` is `everysec`, as in the default configuration, or `always`.
    """

    def __init__(self, folder: Path, *options: str, fsync: str = "everysec") -> None:
        self._folder, self._options, self._fsync = folder, options, fsync
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process = self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def client(self) -> "redis.Redis":
        return redis.Redis.from_url(self.url, decode_responses=True, protocol=2)

    def kill(self) -> None:
        """End the server by SIGKILL. Its data stays on the disk."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def restart(self) -> None:
        """Kill the server by SIGKILL if it runs, and start it again on the same port."""
        self.kill()
        self.launch()

    def launch(self) -> None:
        """Start the killed server again, with the data that it left on the disk."""
        self._process = self._start()

    def freeze(self) -> None:
        """Stop the server by SIGSTOP, to simulate a host that does not answer. Its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def follow(self, master: "RedisServer") -> None:
        """Become a replica of another server. Return when all data has been copied."""
        with self.client() as client, master.client() as source:
            client.replicaof("127.0.0.1", str(master.port))
            until = time.monotonic() + _START_S
            while client.info("replication").get("master_link_status") != "up":
                assert time.monotonic() < until, "the replica does not reach its master"
                time.sleep(_PAUSE_S)
            self._await_offset(source)

    def lag_from_now(self, master: "RedisServer") -> None:
        """Copy all data of the master, and then stop replication. A test can now promote this server."""
        with self.client() as client, master.client() as source:
            self._await_offset(source)
            client.replicaof("NO", "ONE")

    @staticmethod
    def _await_offset(source: "redis.Redis") -> None:
        source.set("replicated", 1)
        assert source.wait(1, round(_START_S * 1000)) == 1

    def stop(self) -> None:
        self.kill()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [
            "redis-server",
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--dir",
            str(self._folder),
        ]
        command += ["--appendonly", "yes", "--appendfsync", self._fsync, "--save", "", *self._options]
        with (self._folder / "redis.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self._await_answer(process)
        return process

    def _await_answer(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait until the server answers, which it does once it has read its append-only file."""
        until = time.monotonic() + _START_S
        while time.monotonic() < until and process.poll() is None:
            try:
                with self.client() as client:
                    client.ping()
            except redis.RedisError:
                time.sleep(_PAUSE_S)
            else:
                return
        process.kill()
        process.wait()
        raise AssertionError((self._folder / "redis.log").read_text(errors="replace"))


@contextmanager
def running_redis(folder: Path, *, fsync: str = "everysec") -> Iterator[RedisServer]:
    with RedisServer(folder, fsync=fsync) as server:
        yield server
