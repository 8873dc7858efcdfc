"""A dispatcher with a real store, real HTTP to loopback, and an outbox that records settled deliveries."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from euterpe.crypto.nonces import MemoryNonces
from euterpe.crypto.signing import verify
from euterpe.dispatch.dispatcher import Dispatcher
from euterpe.domain.retry import DeliverySchedule
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.store.errors import StoreError
from euterpe.store.queue.outbox import ClaimedEvent, Delivery, Outbox
from euterpe.store.queue.transition import Transition
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.fake_receivers import TIMEOUT_S, Received
from tests.store.jobs import PATH, SPEC, enqueue

LOOPBACK = EgressPolicy(allow=["127.0.0.0/8"])
QUICK = DeliverySchedule((10, 20, 40), throttled_ms=10, longest_retry_after_ms=40)


class WatchedOutbox(Outbox):
    """A real outbox that records its settled and postponed events. Tests can wait for them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.database, sweep_every_ms=0)
        self.settled: list[Delivery] = []
        self.batches: list[int] = []
        self.failures = 0
        self.postponed: list[tuple[str, int]] = []
        self.postponements = 0  # the number of calls that postpone events
        self.changed = threading.Condition()

    def settle(self, deliveries: Sequence[Delivery]) -> frozenset[str]:
        try:
            held = super().settle(deliveries)
        except StoreError:
            with self.changed:
                self.failures += 1
                self.changed.notify_all()
            raise
        self.batches.append(len(deliveries))
        self._record(self.settled, (each for each in deliveries if each.event.event_id in held))
        return held

    def postpone(
        self, events: Sequence[ClaimedEvent], delay_ms: int, *, waits_for: str | None = None
    ) -> frozenset[str]:
        held = super().postpone(events, delay_ms, waits_for=waits_for)
        self.postponements += 1
        self._record(self.postponed, ((event_id, delay_ms) for event_id in held))
        return held

    def wait_until(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, TIMEOUT_S), (self.settled, self.postponed)

    def wait_settled(self, count: int) -> list[Delivery]:
        self.wait_until(lambda: len(self.settled) >= count)
        return list(self.settled)

    def _record(self, record: list[Any], entries: Iterator[Any]) -> None:
        with self.changed:
            record.extend(entries)
            self.changed.notify_all()


def watch(store: Store) -> WatchedOutbox:
    """Replace the outbox of the store by a watched outbox, and return this outbox."""
    store.outbox = watched = WatchedOutbox(store)
    return watched


@contextmanager
def dispatching(store: Store, worker_id: str = "d1", **options: Any) -> Iterator[Dispatcher]:
    """Run a dispatcher. Drain it at the end, so that each event that a receiver got is settled."""
    settings = {"schedule": QUICK, "poll_ms": 50, "deadline_s": 10.0, **options}
    with Egress(LOOPBACK) as egress, Dispatcher(store, egress, worker_id, **settings) as dispatcher:
        yield dispatcher


def add_events(
    store: Store, requester: NewRequester, url: str, *, jobs: int = 1, steps: int = 1, **fields: Any
) -> list[str]:
    """Create jobs with `steps` events each, which are to be delivered to `url`. Return the job ids.

    `fields` are additional fields of the specs.
    """
    spec = {**SPEC, "status_webhook_url": url, **fields}
    job_ids = enqueue(store, jobs, requester_id=requester.requester_id, spec=spec)
    claimed = store.inbox.claim("w1", jobs)
    for source, target in pairwise(PATH[:steps]):
        store.inbox.advance([Transition.advance(job, source, target) for job in claimed])
    return job_ids


def assert_signed(received: Sequence[Received], *secrets: str) -> None:
    """Assert that every request is signed with all of these secrets, and that no nonce occurs twice."""
    for secret in secrets:
        nonces = MemoryNonces()
        for one in received:
            now = int(one.headers["x-euterpe-timestamp"])
            verify(one.headers, one.body, [secret], now=now, nonces=nonces)
