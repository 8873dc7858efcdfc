"""Run the app with uvicorn, in a thread that `start()` starts and `stop(drain=…)` ends."""

import asyncio
import math
import resource
import socket
import threading

import uvicorn
from starlette.applications import Starlette

from euterpe.api.connections import Connection

GRACE_S = 10.0
_TCP_USER_TIMEOUT_MS = 30_000
_ABORT_EVERY_S = 0.1


class ApiServer:
    """A uvicorn server in its own thread. It handles no signals: the caller calls `stop`.

    `max_files` is the number of file descriptors that the process may open, by default `RLIMIT_NOFILE`.
    """

    def __init__(
        self,
        app: Starlette,
        host: str,
        port: int,
        *,
        grace_s: float = GRACE_S,
        head_s: float = Connection.head_s,
        max_files: int | None = None,
    ) -> None:
        self._app = app
        self._socket = _bound_socket(host, port)
        self.url = _url(*self._socket.getsockname()[:2])
        self._server = _Server(
            uvicorn.Config(
                app,
                http=_connection_class(head_s, max_files or _file_limit()),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,  # uvicorn would log query strings; the middleware logs requests
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=math.ceil(grace_s),
            )
        )
        self._thread = threading.Thread(target=self._run, name="euterpe-api-server")

    def start(self) -> None:
        """Listen and start the thread. Clients can connect at once; the app answers when it has started."""
        self._socket.listen(2048)
        self._thread.start()

    def begin_stop(self) -> None:
        """Begin to stop: end streams and long polls, accept no connections, finish the requests under way."""
        self._app.state.end_waits()
        self._server.should_exit = True

    def stop(self, *, drain: bool = True) -> None:
        """Stop the server and wait for its thread. Without `drain`, abandon the requests under way."""
        if not drain:
            self._server.config.timeout_graceful_shutdown = 0
        self.begin_stop()
        if self._thread.is_alive():
            self._thread.join()
        else:
            self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down, and abort abandoned connections.

        Otherwise the shutdown would wait for clients that do not read their responses.
        """
        aborting = asyncio.ensure_future(self._abort_abandoned())
        await super().shutdown(sockets)
        aborting.cancel()

    async def _abort_abandoned(self) -> None:
        while True:
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection) and _is_abandoned(connection):
                    connection.transport.abort()
            await asyncio.sleep(_ABORT_EVERY_S)


def _is_abandoned(connection: Connection) -> bool:
    """Return whether the connection is closing in the middle of a response."""
    answer = connection.cycle
    return answer is not None and not answer.response_complete and connection.transport.is_closing()


def _connection_class(head_s: float, files: int) -> type[Connection]:
    """Return a `Connection` class that allows two thirds of `files` as connections (16 to 10,000).

    The store needs the remaining file descriptors.
    """
    most = max(16, min(10_000, files * 2 // 3))
    return type("BoundedConnection", (Connection,), {"most": most, "head_s": head_s})


def _file_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _bound_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted connections inherit this timeout: if a client takes no data for 30 s, its connection is reset.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TCP_USER_TIMEOUT_MS)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
