"""A dispatcher at work in a test: real store, real egress to loopback, and word of what was settled."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from euterpe.crypto.signing import MemoryNonces, verify
from euterpe.dispatch.dispatcher import Dispatcher
from euterpe.domain.retry import DeliverySchedule
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.store.errors import StoreError
from euterpe.store.queue.inbox import Advance
from euterpe.store.queue.outbox import ClaimedEvent, Delivery, Outbox
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.fake_receivers import LONG_S, Received
from tests.store.jobs import PATH, SPEC, enqueue

LOOPBACK = EgressPolicy(allow=["127.0.0.0/8"])
QUICK = DeliverySchedule((10, 20, 40), throttled_ms=10, longest_retry_after_ms=40)


class WatchedOutbox(Outbox):
    """The real one; it keeps what it was told, and tells the test."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.database, sweep_every_ms=0)
        self.settled: list[Delivery] = []
        self.batches: list[int] = []
        self.failures = 0
        self.postponed: list[tuple[str, int]] = []
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
        self._note(self.settled, (each for each in deliveries if each.event.event_id in held))
        return held

    def postpone(
        self, events: Sequence[ClaimedEvent], delay_ms: int, *, waits_for: str | None = None
    ) -> frozenset[str]:
        held = super().postpone(events, delay_ms, waits_for=waits_for)
        self._note(self.postponed, ((event_id, delay_ms) for event_id in held))
        return held

    def wait_until(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, LONG_S), (self.settled, self.postponed)

    def wait_settled(self, count: int) -> list[Delivery]:
        self.wait_until(lambda: len(self.settled) >= count)
        return list(self.settled)

    def _note(self, where: list[Any], what: Iterator[Any]) -> None:
        with self.changed:
            where.extend(what)
            self.changed.notify_all()


def watch(store: Store) -> WatchedOutbox:
    """From now on the store's outbox is watched."""
    store.outbox = watched = WatchedOutbox(store)
    return watched


@contextmanager
def dispatching(store: Store, worker_id: str = "d1", **options: Any) -> Iterator[Dispatcher]:
    """Drained at the end: what was received is settled then."""
    plan = {"schedule": QUICK, "poll_ms": 50, "deadline_s": 10.0, **options}
    with Egress(LOOPBACK) as egress, Dispatcher(store, egress, worker_id, **plan) as dispatcher:
        yield dispatcher


def tell(store: Store, requester: NewRequester, url: str, *, jobs: int = 1, steps: int = 1) -> list[str]:
    """New jobs, each with the first so many events of its life to be told at `url`; returns their ids."""
    spec = {**SPEC, "status_webhook_url": url}
    job_ids = enqueue(store, jobs, requester_id=requester.requester_id, spec=spec)
    claimed = store.inbox.claim("w1", jobs)
    for source, target in pairwise(PATH[:steps]):
        store.inbox.advance([Advance(job, source, target) for job in claimed])
    return job_ids


def verified(received: Sequence[Received], *secrets: str) -> None:
    """That each is signed with each of these secrets, now, and with a nonce that was never seen before."""
    for secret in secrets:
        nonces = MemoryNonces()
        for one in received:
            now = int(one.headers["x-euterpe-timestamp"])
            verify(one.headers, one.body, [secret], now=now, nonces=nonces)
