"""The app on a port, with the one life-cycle shape: start, stop(drain=…)."""

import socket
import threading

import uvicorn
from starlette.applications import Starlette

_GRACE_S = 20


class ApiServer:
    """uvicorn in a thread of its own; signals belong to whoever started the process."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        self._app = app
        self._socket = _bound(host, port)
        self.url = _url(*self._socket.getsockname()[:2])
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
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

    def stop(self, *, drain: bool = True) -> None:
        """Ends the waits, then lets the requests that are being answered finish, unless told not to."""
        self._app.state.end_waits()
        if not drain:
            self._server.config.timeout_graceful_shutdown = 0
        self._server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
