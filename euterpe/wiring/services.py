"""Build the API, the worker and the dispatcher from the settings, and start and stop them together."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import structlog

from euterpe.api.app import create_app
from euterpe.api.backpressure import ApiLimits
from euterpe.api.server import ApiServer
from euterpe.dispatch.dispatcher import Dispatcher
from euterpe.domain.errors import EuterpeError
from euterpe.domain.job_limits import JobLimits
from euterpe.media.ffmpeg import examine_ffmpeg, find_ffmpeg
from euterpe.media.sandbox.memory import memory_of_a_slot, memory_of_the_machine
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.net.egress import Egress
from euterpe.net.pace import MinimumPace
from euterpe.net.policy import EgressPolicy
from euterpe.settings import Settings, SettingsError, worker_id
from euterpe.storage.policy import StoragePolicy
from euterpe.storage.range_readers import ParallelFetch
from euterpe.storage.storage import Storage
from euterpe.store.store import Store
from euterpe.wiring.database import delivery_schedule_of, open_store
from euterpe.wiring.profiles import load_profiles
from euterpe.worker.attempt import Tools
from euterpe.worker.disk import DiskLedger
from euterpe.worker.kept_sources import KeptSources
from euterpe.worker.workdir import WorkDir
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
        self.is_stuck = False  # True if an attempt hung, so that the worker abandoned its thread at the stop

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = self._parts.enter_context(open_store(self._settings))
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
        tools = worker_tools(settings, self.store, egress)
        self._start_sandbox(tools.sandbox)
        worker = Worker(
            tools,
            worker_id(),
            slots=settings.worker_slots,
            queues=settings.worker_queues,
            lease_ms=settings.lease_ttl_ms,
            heartbeat_ms=settings.heartbeat_interval_ms,
        )
        worker.start()
        self._intake.append(worker.stop_claiming)
        self._parts.callback(self._stop_worker, worker)

    def _start_sandbox(self, sandbox: Sandbox) -> None:
        """Start the sandbox before the first claim.

        Raise if the sandbox is required and an essential layer is missing.
        """
        self._sandbox = self._parts.enter_context(sandbox)
        for layer in sandbox.isolation.missing():
            _log.warning(
                "sandbox_incomplete", missing=layer.name, without_it=layer.open_without, advice=layer.advice
            )
        if self._settings.require_sandbox:
            sandbox.isolation.require()

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
        app = create_app(
            self.store,
            limits,
            storage_policy(settings),
            egress_policy(settings),
            profiles=profiles,
            sandbox_layers=self._sandbox_layers,
        )
        try:
            server = ApiServer(app, host, port)
        except OSError as error:
            raise PortTaken(f"{host}:{port} cannot be listened on: {error.strerror}") from error
        self._intake.append(server.begin_stop)
        self._parts.callback(server.stop)
        return server

    def stop(self) -> None:
        for close in self._intake:
            close()
        self._parts.close()


def limits_of_a_job(settings: Settings) -> JobLimits:
    return JobLimits(settings.limit_timeout_seconds, settings.limit_attempts, settings.limit_priority)


def egress_policy(settings: Settings) -> EgressPolicy:
    try:
        return EgressPolicy(settings.egress_allow)
    except ValueError as error:
        raise SettingsError([f"EUTERPE_EGRESS_ALLOW: {error}"]) from None


def storage_policy(settings: Settings) -> StoragePolicy:
    # Do not resolve symbolic links in the roots, because the policy compares path names.
    roots = tuple(Path(root).absolute() for root in settings.storage_roots)
    try:
        return StoragePolicy(roots=roots, endpoints=settings.storage_endpoints)
    except ValueError as error:
        raise SettingsError([f"EUTERPE_STORAGE_ENDPOINTS: {error}"]) from None


def minimum_pace(settings: Settings) -> MinimumPace:
    return MinimumPace(settings.min_transfer_bytes_per_s, settings.min_transfer_window_ms / 1000)


def worker_tools(settings: Settings, store: Store, egress: Egress) -> Tools:
    found = examine_ffmpeg(find_ffmpeg(settings.ffmpeg))
    if not found.is_safe:
        _log.warning("ffmpeg_is_old", version=found.version, advice="see `euterpe doctor`")
    workdir = WorkDir(settings.work_dir)
    kept = KeptSources(workdir)
    return Tools(
        store=store,
        storage=Storage(
            storage_policy(settings),
            egress,
            pace=minimum_pace(settings),
            parallel=ParallelFetch(connections=settings.fetch_connections),
        ),
        egress=egress,
        sandbox=Sandbox(found.path),
        workdir=workdir,
        disk=DiskLedger(
            workdir.free_bytes,
            slots=settings.worker_slots,
            min_free_bytes=settings.min_free_bytes,
            kept=kept,
        ),
        kept=kept,
        ffmpeg_version=found.version,
        threads=threads_of_a_slot(settings.worker_slots),
        memory_bytes=memory_of_a_slot(settings.worker_slots, memory_of_the_machine()),
        max_source_bytes=settings.max_source_bytes,
        stall_seconds=settings.stall_timeout_ms / 1000,
        max_refreshes=settings.refresh_max_attempts,
    )


def threads_of_a_slot(slots: int) -> int:
    """Return the number of ffmpeg threads per slot: the cores divided by the slots, but at least one."""
    return max(1, len(os.sched_getaffinity(0)) // slots)


@contextmanager
def running(settings: Settings) -> Iterator[Services]:
    services = Services(settings)
    try:
        yield services
    finally:
        services.stop()
