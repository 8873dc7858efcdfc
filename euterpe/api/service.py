"""The parts that all endpoints share: store, limits, thread pools, authenticator, watcher, metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from euterpe.api.auth import Authenticator
from euterpe.api.backpressure import ApiLimits, Backpressure, StreamSlots
from euterpe.api.metrics import Metrics, SandboxLayers
from euterpe.api.thread_pool import MOST_SEALING, WRITING_THREADS, StoreThreadPool
from euterpe.api.watcher import Watcher
from euterpe.domain.errors import FieldError
from euterpe.domain.profiles import Profiles
from euterpe.domain.spec import JobSpec
from euterpe.domain.storage_profiles import StorageProfiles
from euterpe.net.policy import EgressPolicy
from euterpe.store.store import Store


class DryRun(Protocol):
    """A planner of jobs that are not stored."""

    def plan(self, spec: JobSpec) -> Mapping[str, Any]:
        """Return the `PlanDocument`. Raise an `EuterpeError` with the code that the job would fail with."""
        ...

    def stop(self) -> None: ...


class SpecPolicy(Protocol):
    """The operator's restrictions on specs."""

    def problems(self, spec: JobSpec) -> tuple[FieldError, ...]: ...


@dataclass(frozen=True, kw_only=True)
class ApiTimings:
    """Durations of the API, in seconds."""

    body_s: float = 30.0  # the longest time for the body of a request to arrive
    readiness_s: float = 5.0  # the longest time for the database to answer /readyz
    write_probe_every_s: float = 5.0
    watch_every_s: float = 0.2  # the pause between two polls of the watched jobs
    stream_beat_s: float = 15.0  # an event stream sends a comment after this time without events
    # A client that takes no data for this long is disconnected.
    stream_send_s: float = 30.0
    stream_s: float = 3600.0  # an event stream ends after this time, so that its client authenticates again
    stream_retry_s: float = 1.0  # the pause between two reads of an event stream in a database outage


DEFAULT_TIMINGS = ApiTimings()
# Each dry run takes up to 48 MiB of disk and a sandboxed child. A requester can use only one of the threads
# at a time.
_DRY_RUN_THREADS, _MOST_DRY_RUNS = 2, 32


@dataclass(frozen=True)
class Service:
    store: Store
    limits: ApiLimits
    timings: ApiTimings
    policy: SpecPolicy
    egress: EgressPolicy
    profiles: Profiles
    storage_profiles: StorageProfiles
    read_pool: StoreThreadPool
    write_pool: StoreThreadPool
    sealing_pool: StoreThreadPool  # the threads for calls that wait for the key provider
    dry_run: DryRun | None
    dry_run_pool: StoreThreadPool
    authenticator: Authenticator
    watcher: Watcher
    stream_slots: StreamSlots
    backpressure: Backpressure
    metrics: Metrics


def new_service(
    store: Store,
    limits: ApiLimits,
    policy: SpecPolicy,
    egress: EgressPolicy,
    *,
    profiles: Profiles,
    storage_profiles: StorageProfiles,
    sandbox_layers: SandboxLayers,
    dry_run: DryRun | None,
    timings: ApiTimings,
) -> Service:
    wait_s = store.database.write_wait_s
    read_pool = StoreThreadPool(write_wait_s=wait_s)
    write_pool = StoreThreadPool(WRITING_THREADS, write_wait_s=wait_s)
    metrics = Metrics(store.jobs.backlog, read_pool, sandbox_layers, store.attempt_ends.released)
    return Service(
        store=store,
        limits=limits,
        timings=timings,
        policy=policy,
        egress=egress,
        profiles=profiles,
        storage_profiles=storage_profiles,
        read_pool=read_pool,
        write_pool=write_pool,
        sealing_pool=StoreThreadPool(write_wait_s=wait_s, most=MOST_SEALING),
        dry_run=dry_run,
        dry_run_pool=StoreThreadPool(_DRY_RUN_THREADS, most=_MOST_DRY_RUNS),
        authenticator=Authenticator(store.requesters.authenticate, store.requesters.still_valid, read_pool),
        watcher=Watcher(store.jobs.versions, timings.watch_every_s),
        stream_slots=StreamSlots(limits, metrics.waits.set),
        backpressure=Backpressure(store.jobs, limits, read_pool),
        metrics=metrics,
    )
