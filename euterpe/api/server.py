"""The app on a port, with the one life-cycle shape: start, stop(drain=…)."""

import asyncio
import resource
import socket
import threading

import uvicorn
from starlette.applications import Starlette

from euterpe.api.connections import Connection

_GRACE_S = 10
_DEAF_MS = 30_000
_LOOK_EVERY_S = 0.1


class ApiServer:
    """uvicorn in a thread of its own; signals belong to whoever started the process."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        self._app = app
        self._socket = _bound(host, port)
        self.url = _url(*self._socket.getsockname()[:2])
        self._server = _Server(
            uvicorn.Config(
                app,
                http=_connection_class(),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,  # it would log queries; the app has its own log
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE_S,
            )
        )
        self._thread = threading.Thread(target=self._run, name="euterpe-api-server")

    def start(self) -> None:
        """From now on a connection is accepted: the port listens already, and answers once the app is up."""
        self._socket.listen(2048)
        self._thread.start()

    def accept_no_more(self) -> None:
        """The beginning of `stop`: ends the waits, and what is being answered finishes."""
        self._app.state.end_waits()
        self._server.should_exit = True

    def stop(self, *, drain: bool = True) -> None:
        """Lets the requests that are being answered finish, unless told not to."""
        if not drain:
            self._server.config.timeout_graceful_shutdown = 0
        self.accept_no_more()
        if self._thread.is_alive():
            self._thread.join()
        else:
            self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Does not wait for clients that were given up: they do not read, not even that it is over."""
        cutting_off = asyncio.ensure_future(self._cut_off())
        await super().shutdown(sockets)
        cutting_off.cancel()

    async def _cut_off(self) -> None:
        while True:
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection) and _is_given_up(connection):
                    connection.transport.abort()
            await asyncio.sleep(_LOOK_EVERY_S)


def _is_given_up(connection: Connection) -> bool:
    """Its answer ended in the middle."""
    answer = connection.cycle
    return answer is not None and not answer.response_complete and connection.transport.is_closing()


def _connection_class() -> type[Connection]:
    """Takes at most two thirds of the files that this process may open: the others need theirs."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return type("BoundedConnection", (Connection,), {"most": max(16, min(10_000, files * 2 // 3))})


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Of its connections: one whose client takes nothing ends, and what is unsent with it.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAF_MS)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
