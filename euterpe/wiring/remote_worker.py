"""Build a remote worker from the settings: a worker that gets its jobs over HTTP, and needs no database."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import structlog

from euterpe.net.egress import Egress
from euterpe.settings import Settings, SettingsError, worker_id
from euterpe.wiring.worker import egress_policy, start_sandbox, worker_tools
from euterpe.worker.http_plane import HttpPlane
from euterpe.worker.remote.server_connection import ServerConnection
from euterpe.worker.remote.server_settings import ServerSettings, ServerSettingsError, new_client
from euterpe.worker.worker import REMOTE_TIMINGS, Worker

_log = structlog.get_logger(__name__)
# Each slot needs two connections: one for the attempt in the slot, and one for an attempt that has left the
# slot and is uploading. Four more connections are for the claim, its release, the heartbeat, and a heartbeat
# with early progress.
_MORE_CONNECTIONS = 4


class RemoteWorker:
    """The worker of a process without a database. The creator must call `stop`, which drains."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._parts = ExitStack()
        self.is_stuck = False  # True if an attempt hung at the stop, so that its thread was abandoned

    def start(self) -> None:
        """Start the worker. Raise `SettingsError` if the settings do not allow a connection.

        It is no error if the server does not answer or refuses the key, because the worker retries.
        """
        settings, parts = self._settings, self._parts
        connection = open_connection(settings, connections=2 * settings.worker_slots + _MORE_CONNECTIONS)
        parts.callback(connection.close)
        egress = parts.enter_context(Egress(egress_policy(settings)))
        plane = HttpPlane(connection, worker_id=worker_id(), queues=settings.worker_queues)
        tools = worker_tools(settings, plane, egress)
        start_sandbox(tools.sandbox, parts, is_required=settings.require_sandbox)
        worker = Worker(
            tools,
            slots=settings.worker_slots,
            heartbeat_ms=settings.heartbeat_interval_ms,
            timings=REMOTE_TIMINGS,
        )
        worker.start()
        parts.callback(self._stop_worker, worker)
        _log.info("server_chosen", server=settings.server, queues=settings.worker_queues)

    def stop(self) -> None:
        self._parts.close()

    def _stop_worker(self, worker: Worker) -> None:
        self.is_stuck = not worker.stop(drain_s=self._settings.drain_timeout_ms / 1000)


def open_connection(settings: Settings, *, connections: int) -> ServerConnection:
    """Return the connection to EUTERPE_SERVER. Send no request. Raise `SettingsError` for wrong settings."""
    return ServerConnection(server_settings(settings), connections=connections)


def server_settings(settings: Settings) -> ServerSettings:
    """Return the settings of the connection. Raise `SettingsError` if a setting is missing or invalid."""
    if settings.server is None:
        raise SettingsError(["EUTERPE_SERVER is not set: it is the URL of the server of a remote worker"])
    if settings.api_key is None:
        raise SettingsError(
            [
                "EUTERPE_API_KEY is not set: a remote worker needs a key, which "
                "`euterpe worker-key create` prints on the server"
            ]
        )
    found = ServerSettings(
        settings.server,
        settings.api_key.get_secret_value(),
        ca_file=settings.server_ca,
        client_cert=settings.client_cert,
        client_key=settings.client_key,
        is_insecure=settings.server_insecure,
    )
    try:
        new_client(found, 1)
    except ServerSettingsError as error:
        raise SettingsError([str(error)]) from None
    return found


@contextmanager
def running_remote_worker(settings: Settings) -> Iterator[RemoteWorker]:
    worker = RemoteWorker(settings)
    try:
        worker.start()
        yield worker
    finally:
        worker.stop()
