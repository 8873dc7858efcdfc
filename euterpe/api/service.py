"""What the calls of the service share."""

from dataclasses import dataclass
from typing import Protocol

from euterpe.api.auth import Door
from euterpe.api.backpressure import Backpressure
from euterpe.api.calls import WRITING_THREADS, Calls
from euterpe.api.limits import ApiLimits
from euterpe.api.metrics import Metrics, SandboxLayers
from euterpe.api.seats import Seats
from euterpe.api.watcher import Watcher
from euterpe.domain.errors import FieldError
from euterpe.domain.spec import JobSpec
from euterpe.net.policy import EgressPolicy
from euterpe.store.store import Store


class SpecPolicy(Protocol):
    """What the operator allows of what a spec may ask for."""

    def problems(self, spec: JobSpec) -> tuple[FieldError, ...]: ...


@dataclass(frozen=True)
class Service:
    store: Store
    limits: ApiLimits
    policy: SpecPolicy
    egress: EgressPolicy
    calls: Calls
    writes: Calls
    door: Door
    watcher: Watcher
    seats: Seats
    backpressure: Backpressure
    metrics: Metrics


def new_service(
    store: Store, limits: ApiLimits, policy: SpecPolicy, egress: EgressPolicy, sandbox_layers: SandboxLayers
) -> Service:
    wait_s = store.database.write_wait_s
    calls, writes = Calls(write_wait_s=wait_s), Calls(WRITING_THREADS, write_wait_s=wait_s)
    metrics = Metrics(store.jobs.backlog, calls, sandbox_layers)
    return Service(
        store=store,
        limits=limits,
        policy=policy,
        egress=egress,
        calls=calls,
        writes=writes,
        door=Door(store.requesters.authenticate, calls),
        watcher=Watcher(store.jobs.versions),
        seats=Seats(limits, metrics.waits.set),
        backpressure=Backpressure(store.jobs, limits, calls),
        metrics=metrics,
    )
