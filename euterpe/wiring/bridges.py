"""Build the bridges to foreign queues from the settings, and run them in a thread with its own event loop."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

import structlog
import uvloop
from prometheus_client import start_http_server

from euterpe.bridges.adapter import BridgeError, ForeignAdapter, ForeignUnavailable
from euterpe.bridges.attach import Attacher, JobRules
from euterpe.bridges.bridge import Bridge, BridgeTimings
from euterpe.bridges.config import BridgeConfig, BridgeKind, InvalidBridges, read_bridges
from euterpe.bridges.counts import BridgeCounts
from euterpe.bridges.mapping import JobMapping
from euterpe.bridges.redis_connection import check_eviction, connect, place_of, redis_errors
from euterpe.bridges.requester_account import QueueLimits, RequesterAccount, StoreCalls
from euterpe.bridges.row_watcher import RowWatcher
from euterpe.bridges.stream_jobs import StreamQueue
from euterpe.domain.job_limits import JobLimits
from euterpe.domain.locations import scheme_of
from euterpe.domain.storage_profiles import StorageProfile
from euterpe.settings import Settings, SettingsError
from euterpe.store.engine.wakeup import Listener, Topic
from euterpe.store.errors import Conflict, NotFound
from euterpe.store.store import Store
from euterpe.wiring.database import USE_THE_SERVICES, open_store
from euterpe.wiring.profiles import load_profiles
from euterpe.wiring.storage_profiles import load_storage_profiles
from euterpe.wiring.worker import storage_policy

_log = structlog.get_logger(__name__)


def load_bridges(
    settings: Settings, name: str | None = None, environ: Mapping[str, str] = os.environ
) -> Sequence[BridgeConfig]:
    """Return all declared bridges, or only the bridge `name`.

    Raise `SettingsError` with every error in the file, and in its references to storage profiles.
    """
    if settings.bridges is None:
        raise SettingsError(["EUTERPE_BRIDGES is not set: name the TOML file with the bridges"])
    try:
        bridges = read_bridges(settings.bridges, environ, load_profiles(settings))
    except InvalidBridges as invalid:
        raise SettingsError(invalid.problems) from None
    chosen = [bridge for bridge in bridges.values() if name in (None, bridge.name)]
    if not chosen:
        known = ", ".join(bridges)
        raise SettingsError([f"{settings.bridges}: there is no bridge {name!r}; there are {known}"])
    problems = [problem for bridge in chosen for problem in _storage_problems(bridge, settings)]
    if problems:
        raise SettingsError(problems)
    return chosen


def _storage_problems(bridge: BridgeConfig, settings: Settings) -> Sequence[str]:
    """Return a problem for each mapping whose storage profile the requester or the URLs may not use."""
    profiles = load_storage_profiles(settings)
    allowed = {name for name, profile in profiles.items() if bridge.requester in profile.requesters}
    problems: list[str] = []
    for mapping in bridge.jobs.values():
        if mapping.storage is None:
            continue
        if mapping.storage in allowed:
            problems += _outside_problems(mapping, profiles[mapping.storage])
        else:
            problems.append(
                f"jobs.{mapping.name}.storage must be a storage profile of euterpe.toml that lists "
                f"{bridge.requester!r} in its requesters"
            )
    return [f"{settings.bridges}: bridge.{bridge.name}: {problem}" for problem in problems]


def _outside_problems(mapping: JobMapping, profile: StorageProfile) -> Iterator[str]:
    """Yield a problem for each URL of which no value can begin with a prefix of the storage profile."""
    for name, template in (("source", mapping.source), ("output", mapping.output)):
        beginning = template.beginning
        is_stored = scheme_of(beginning) == profile.credentials.type
        if is_stored and profile.prefixes and not any(map(template.may_begin_with, profile.prefixes)):
            yield (
                f"jobs.{mapping.name}.{name} begins with {beginning}, and not with a prefix of the storage "
                f"profile {mapping.storage!r}: {', '.join(profile.prefixes)}"
            )


def open_adapter(bridge: BridgeConfig) -> ForeignAdapter:
    """Return the adapter of a bridge. Raise `ModuleNotFoundError` if its package is not installed."""
    if bridge.kind in (BridgeKind.BULLMQ, BridgeKind.BULLMQ_POSTGRES):
        from euterpe.bridges.bullmq import BullMqAdapter  # noqa: PLC0415  each kind needs another package

        return BullMqAdapter(bridge)
    if bridge.kind is BridgeKind.STREAMS:
        from euterpe.bridges.streams import StreamsAdapter  # noqa: PLC0415

        queue = StreamQueue(bridge.queue, bridge.group or StreamQueue.group)
        return StreamsAdapter(bridge.url, queue, lease_s=bridge.lease_ms / 1000)
    return _omniq_adapter(bridge)


def _omniq_adapter(bridge: BridgeConfig) -> ForeignAdapter:
    try:
        from euterpe.bridges.omniq import OmniqAdapter  # noqa: PLC0415  its package is under the GPL
    except ModuleNotFoundError as missing:
        if missing.name != "omniq":
            raise
        raise BridgeError(
            f"bridge {bridge.name}: needs OmniQ's client, which is under the GPL and in no extra of Euterpe: "
            "`pip install omniq` where the bridge runs"
        ) from None
    return OmniqAdapter(bridge)


class RunningBridges:
    """The bridges of one process. The creator must call `stop`.

    If a bridge fails after the start, all bridges end, and then `on_failure` is called.
    """

    is_stuck = False

    def __init__(
        self,
        settings: Settings,
        bridges: Sequence[BridgeConfig],
        *,
        metrics_port: int | None = None,
        timings: BridgeTimings | None = None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_failure = on_failure
        self._settings, self._bridges = settings, bridges
        self._timings = timings or BridgeTimings(drain_s=settings.drain_timeout_ms / 1000)
        self._adapters = {bridge.name: open_adapter(bridge) for bridge in bridges}
        self._store = open_store(settings, if_missing=USE_THE_SERVICES)
        self._calls = StoreCalls()
        self._listeners: list[Listener] = []
        self.counts = BridgeCounts()
        self._metrics_port = metrics_port
        self._ready: Future[None] = Future()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="bridges", daemon=True)

    def start(self) -> None:
        """Start all bridges. Raise `BridgeError` if a requester is missing, but not if a queue is down."""
        if self._metrics_port is not None:
            try:
                start_http_server(self._metrics_port, registry=self.counts.registry)
            except OSError as error:
                raise BridgeError(f"--metrics-port {self._metrics_port}: {error.strerror}") from None
        self._thread.start()
        self._ready.result()

    def stop(self) -> None:
        """Drain: hand back all jobs whose end is not reported yet. Then close all connections."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._calls.stop()
        for listener in self._listeners:
            listener.close()
        self._store.close()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001  the starting thread raises it
            if self._ready.done():
                _log.exception("bridges_ended")
                self.is_stuck = True  # the program then ends with an error
                self._on_failure()
            else:
                self._ready.set_exception(error)

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        made = [await self._made(bridge) for bridge in self._bridges]
        tasks = [asyncio.ensure_future(_run_one(bridge, self._stopping)) for bridge in made]
        self._ready.set_result(None)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    async def _made(self, bridge: BridgeConfig) -> Bridge:
        settings, store, calls = self._settings, self._store, self._calls
        limits = QueueLimits(
            max_unfinished=settings.max_unfinished,
            max_unfinished_of_all=settings.max_unfinished_of_all,
            job=JobLimits(settings.limit_timeout_seconds, settings.limit_attempts, settings.limit_priority),
        )
        account = RequesterAccount(store, calls, bridge.requester, limits)
        await account.find()
        # The key provider of sealed fields may wait for the network.
        storage_profiles = await calls.run(partial(load_storage_profiles, settings))
        rules = JobRules(bridge.jobs, load_profiles(settings), storage_profiles, storage_policy(settings))
        listener = store.database.listen(Topic.OUTBOX)
        self._listeners.append(listener)
        return Bridge(
            bridge.name,
            adapter=self._adapters[bridge.name],
            attacher=Attacher(store, calls, rules, account),
            account=account,
            watcher=RowWatcher(store.jobs, calls, listener),
            counts=self.counts.of(bridge.name),
            cancel=partial(cancel_job, store, calls),
            slots=bridge.slots,
            timings=self._timings,
            on_first_answer=partial(_warn_of_eviction, bridge),
        )


async def cancel_job(store: Store, calls: StoreCalls, job_id: str) -> None:
    """Cancel a job, unless it has ended."""
    try:
        await calls.run(partial(store.control.cancel, job_id))
    except (Conflict, NotFound):
        _log.info("bridged_job_had_ended", job_id=job_id)


async def _warn_of_eviction(bridge: BridgeConfig) -> None:
    """Log a warning if the Redis of a bridge removes keys when it is full, because it could remove jobs."""
    if bridge.kind is BridgeKind.BULLMQ_POSTGRES:
        return
    client, place = connect(bridge.url, connections=1), place_of(bridge.url)
    try:
        with redis_errors(place):
            check_eviction(await client.info("memory"), place)
    except (BridgeError, ForeignUnavailable) as error:
        _log.warning("redis_eviction_check_failed", bridge=bridge.name, error=str(error))
    finally:
        await client.aclose()


async def _run_one(bridge: Bridge, stopping: asyncio.Event) -> None:
    """Run a bridge. If it fails, stop the other bridges, because the whole program must end."""
    try:
        await bridge.run(stopping)
    except Exception:
        stopping.set()
        raise
