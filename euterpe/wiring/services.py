"""Build the API, the worker and the dispatcher from the settings, and start and stop them together."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import structlog

from euterpe.api.app import create_app
from euterpe.api.backpressure import ApiLimits
from euterpe.api.server import ApiServer
from euterpe.api.worker.service import WorkerSettings
from euterpe.control.refresher import Refresher
from euterpe.control.store_plane import StorePlane
from euterpe.dispatch.dispatcher import Dispatcher
from euterpe.domain.errors import EuterpeError
from euterpe.domain.job_limits import JobLimits
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.net.egress import Egress
from euterpe.settings import Settings, worker_id
from euterpe.store.store import Store
from euterpe.wiring.database import delivery_schedule_of, open_store, sweep_grace_of
from euterpe.wiring.profiles import load_profiles
from euterpe.wiring.storage_profiles import load_storage_profiles
from euterpe.wiring.worker import (
    egress_policy,
    start_sandbox,
    storage_of,
    storage_policy,
    work_folder,
    worker_tools,
)
from euterpe.worker.dry_run import DryRunLimits, DryRuns
from euterpe.worker.worker import Worker

_log = structlog.get_logger(__name__)


class PortTaken(EuterpeError):
    code = "port_taken"


class Services:
    """The API server, worker and dispatcher of one process. The creator must call `stop`.

    `stop` first makes the API and the worker accept no new work. Then it stops the started parts in the
    reverse order of their start and waits for each part. So start the dispatcher before the worker: then the
    dispatcher stops after the worker, and can deliver the events of the worker's last jobs.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._parts = ExitStack()
        self._intake: list[Callable[[], None]] = []
        self._store: Store | None = None
        self._sandbox: Sandbox | None = None
        self.is_stuck = False  # True if an attempt hung at the stop, so that its thread was abandoned

    @property
    def store(self) -> Store:
        return self._open_store()

    def _open_store(self, *, sweep_grace_ms: int = 0) -> Store:
        """Return the store, which the first call opens."""
        if self._store is None:
            store = open_store(self._settings, sweep_grace_ms=sweep_grace_ms)
            self._store = self._parts.enter_context(store)
        return self._store

    def start_dispatcher(self) -> None:
        settings = self._settings
        egress = self._parts.enter_context(Egress(egress_policy(settings)))
        dispatcher = Dispatcher(
            self.store,
            egress,
            worker_id(),
            batch=settings.outbox_batch,
            concurrency=settings.outbox_concurrency,
            poll_ms=settings.outbox_poll_ms,
            lease_ms=settings.lease_ttl_ms,
            heartbeat_ms=settings.heartbeat_interval_ms,
            max_attempts=settings.outbox_max_attempts,
            schedule=delivery_schedule_of(settings),
            deadline_s=min(10.0, settings.lease_ttl_ms / 2000),
        )
        dispatcher.start()
        self._parts.callback(dispatcher.stop)
        _log.info("dispatcher_started")

    def start_worker(self) -> None:
        settings = self._settings
        egress = self._parts.enter_context(Egress(egress_policy(settings)))
        tools = worker_tools(settings, self._store_plane(egress), egress)
        self._sandbox = tools.sandbox
        start_sandbox(tools.sandbox, self._parts, is_required=settings.require_sandbox)
        worker = Worker(
            tools,
            slots=settings.worker_slots,
            heartbeat_ms=settings.heartbeat_interval_ms,
        )
        worker.start()
        self._intake.append(worker.stop_claiming)
        self._parts.callback(self._stop_worker, worker)

    def _store_plane(self, egress: Egress) -> StorePlane:
        settings = self._settings
        return StorePlane(
            self.store,
            Refresher(self.store, egress, max_refreshes=settings.refresh_max_attempts),
            worker_id(),
            queues=settings.worker_queues,
            lease_ms=settings.lease_ttl_ms,
        )

    def _sandbox_layers(self) -> dict[str, bool] | None:
        if self._sandbox is None:
            return None
        return {layer.name: layer.holds for layer in self._sandbox.isolation.layers()}

    def _stop_worker(self, worker: Worker) -> None:
        self.is_stuck = not worker.stop(drain_s=self._settings.drain_timeout_ms / 1000)

    def open_api(self, host: str, port: int) -> ApiServer:
        """Return a server bound to `port` (0 for any free port). It answers requests only after its `start`.

        Raise `PortTaken` if the port cannot be bound, and `SettingsError` if a profile is invalid.
        """
        settings = self._settings
        profiles = load_profiles(settings)
        limits = ApiLimits(
            max_body_bytes=settings.max_body_bytes,
            max_unfinished=settings.max_unfinished,
            max_unfinished_of_all=settings.max_unfinished_of_all,
            job=limits_of_a_job(settings),
        )
        dry_runs = self._dry_runs()
        app = create_app(
            # No lease is swept at first, so that running remote workers can revive their leases after an
            # outage of the API.
            self._open_store(sweep_grace_ms=sweep_grace_of(settings)),
            limits,
            storage_policy(settings),
            egress_policy(settings),
            profiles=profiles,
            storage_profiles=load_storage_profiles(settings),
            sandbox_layers=self._sandbox_layers,
            dry_run=dry_runs,
            workers=worker_settings(settings),
        )
        try:
            server = ApiServer(app, host, port)
        except OSError as error:
            raise PortTaken(f"{host}:{port} cannot be listened on: {error.strerror}") from error
        self._intake.append(server.begin_stop)
        self._parts.callback(server.stop)
        return server

    def _dry_runs(self) -> DryRuns:
        settings = self._settings
        egress = self._parts.enter_context(Egress(egress_policy(settings)))
        limits = DryRunLimits(settings.max_source_bytes, requires_sandbox=settings.require_sandbox)
        # The probe needs no ffmpeg, which may be missing on a machine that only serves the API.
        dry_runs = DryRuns(
            storage_of(settings, egress), Sandbox(Path(os.devnull)), work_folder(settings), limits
        )
        # End dry runs first: a dry run can take 30 s, and the stop of the API waits for it.
        self._intake.append(dry_runs.begin_stop)
        self._parts.callback(dry_runs.stop)
        return dry_runs

    def stop(self) -> None:
        for close in self._intake:
            close()
        self._parts.close()


def worker_settings(settings: Settings) -> WorkerSettings:
    """Return the settings of the endpoints for remote workers."""
    return WorkerSettings(
        lease_ms=settings.lease_ttl_ms,
        heartbeat_ms=settings.heartbeat_interval_ms,
        gives_inline=settings.worker_credentials == "inline",
        max_refreshes=settings.refresh_max_attempts,
    )


def limits_of_a_job(settings: Settings) -> JobLimits:
    return JobLimits(settings.limit_timeout_seconds, settings.limit_attempts, settings.limit_priority)


@contextmanager
def running(settings: Settings) -> Iterator[Services]:
    services = Services(settings)
    try:
        yield services
    finally:
        services.stop()
