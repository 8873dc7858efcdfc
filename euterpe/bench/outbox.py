"""The dispatcher at work on a bench's events, and what became of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from euterpe.bench.errors import BenchFailed
from euterpe.bench.programs import Installation
from euterpe.domain.states import OutboxStatus
from euterpe.store.store import Store

_FOREIGN = "events of the bench were not delivered: stop other dispatchers while you measure"


@contextmanager
def delivering(installation: Installation, addresses: Sequence[str]) -> Iterator[Callable[[], None]]:
    """`euterpe dispatcher`, which may also send to these `host:port`; yields a check that it still runs.

    It delivers whatever the outbox holds: to requesters as any other dispatcher of the installation would.
    """
    allowed = ",".join((*installation.settings.egress_allow, *addresses))
    with installation.running("dispatcher", EUTERPE_EGRESS_ALLOW=allowed) as dispatcher:
        yield dispatcher.check_running


def require_delivered(store: Store, requester_id: str) -> None:
    undelivered = [status for status in OutboxStatus if status is not OutboxStatus.DELIVERED]
    if store.jobs.deliveries(statuses=undelivered, requester_id=requester_id, limit=1):
        raise BenchFailed(_FOREIGN)
