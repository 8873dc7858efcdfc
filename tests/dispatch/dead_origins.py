"""Dead receivers of a hostile requester, and a record of the addresses that the dispatcher dials."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from euterpe.dispatch.dispatcher import Dispatcher
from euterpe.net.egress import Egress
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.dispatcher_harness import LOOPBACK, QUICK
from tests.dispatch.fake_receivers import TIMEOUT_S
from tests.store.jobs import SPEC, new_job


class DialRecord:
    """A real dialer that records the addresses that it dials, in order."""

    def __init__(self) -> None:
        self.addresses: list[tuple[str, int]] = []
        self._changed = threading.Condition()

    def __call__(self, address: str, port: int, timeout_s: float) -> socket.socket:
        with self._changed:
            self.addresses.append((address, port))
            self._changed.notify_all()
        return socket.create_connection((address, port), timeout_s)

    def wait_for(self, condition: Callable[[Sequence[tuple[str, int]]], bool]) -> None:
        """Wait until the condition is true for the dialled addresses."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self.addresses), TIMEOUT_S), len(self.addresses)


@contextmanager
def silent_origins(count: int) -> Iterator[list[str]]:
    """Yield the URLs of listeners whose connections the kernel accepts and no process ever reads.

    Each has its own address in 127/8, so each is a separate origin.
    """
    with ExitStack() as open_sockets:
        urls = []
        for number in range(count):
            host = f"127.7.{number // 250}.{1 + number % 250}"
            listener = open_sockets.enter_context(socket.create_server((host, 0)))
            urls.append(f"http://{host}:{listener.getsockname()[1]}/hook")
        yield urls


def closed_origins(count: int) -> list[str]:
    """Return URLs of addresses in 127/8 on which no process listens, so that each dial is refused at once."""
    return [f"http://127.8.{number // 250}.{1 + number % 250}:9/hook" for number in range(count)]


def add_events_at(store: Store, requester: NewRequester, urls: Sequence[str], *, each: int = 1) -> None:
    """Create `each` jobs for each URL. Each job has one event to deliver to its URL."""
    specs = [{**SPEC, "status_webhook_url": url} for url in urls for _ in range(each)]
    for first in range(0, len(specs), 500):
        batch = [
            new_job(requester_id=requester.requester_id, spec=spec) for spec in specs[first : first + 500]
        ]
        store.enqueue.many(batch)
        store.inbox.claim("w1", len(batch))


@contextmanager
def record_dials(store: Store, worker_id: str = "d1", *, deadline_s: float = 1.0) -> Iterator[DialRecord]:
    """Run a dispatcher and yield the record of its dials."""
    record = DialRecord()
    with (
        Egress(LOOPBACK, dial=record) as egress,
        Dispatcher(store, egress, worker_id, schedule=QUICK, poll_ms=50, deadline_s=deadline_s),
    ):
        yield record
