"""The parts that all endpoints share: store, limits, thread pools, authenticator, watcher, metrics."""

from dataclasses import dataclass
from typing import Protocol

from euterpe.api.auth import Authenticator
from euterpe.api.backpressure import ApiLimits, Backpressure
from euterpe.api.metrics import Metrics, SandboxLayers
from euterpe.api.store_pool import WRITING_THREADS, StorePool
from euterpe.api.stream_slots import StreamSlots
from euterpe.api.watcher import Watcher
from euterpe.domain.errors import FieldError
from euterpe.domain.spec import JobSpec
from euterpe.net.policy import EgressPolicy
from euterpe.store.store import Store


class SpecPolicy(Protocol):
    """The operator's restrictions on specs."""

    def problems(self, spec: JobSpec) -> tuple[FieldError, ...]: ...


@dataclass(frozen=True)
class Service:
    store: Store
    limits: ApiLimits
    policy: SpecPolicy
    egress: EgressPolicy
    read_pool: StorePool
    write_pool: StorePool
    authenticator: Authenticator
    watcher: Watcher
    stream_slots: StreamSlots
    backpressure: Backpressure
    metrics: Metrics


def new_service(
    store: Store, limits: ApiLimits, policy: SpecPolicy, egress: EgressPolicy, sandbox_layers: SandboxLayers
) -> Service:
    wait_s = store.database.write_wait_s
    read_pool, write_pool = StorePool(write_wait_s=wait_s), StorePool(WRITING_THREADS, write_wait_s=wait_s)
    metrics = Metrics(store.jobs.backlog, read_pool, sandbox_layers)
    return Service(
        store=store,
        limits=limits,
        policy=policy,
        egress=egress,
        read_pool=read_pool,
        write_pool=write_pool,
        authenticator=Authenticator(store.requesters.authenticate, read_pool),
        watcher=Watcher(store.jobs.versions),
        stream_slots=StreamSlots(limits, metrics.waits.set),
        backpressure=Backpressure(store.jobs, limits, read_pool),
        metrics=metrics,
    )
