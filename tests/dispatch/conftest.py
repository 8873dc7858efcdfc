from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.dispatcher_harness import WatchedOutbox, watch
from tests.dispatch.fake_receivers import BlackHole, Receiver


@pytest.fixture
def store(url: str, ring: LocalKeyRing) -> Iterator[Store]:
    """Yield a store on the database's own clock, because deliveries are retried after real milliseconds."""
    with Store(url, ring, sweep_every_ms=0) as opened:
        yield opened


@pytest.fixture
def outbox(store: Store) -> WatchedOutbox:
    return watch(store)


@pytest.fixture
def requester(store: Store) -> NewRequester:
    return store.requesters.create("newsroom")


@pytest.fixture
def open_receivers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def receiver(open_receivers: ExitStack) -> Receiver:
    """Return a receiver that accepts everything unless the test sets `respond`."""
    return open_receivers.enter_context(closing(Receiver()))


@pytest.fixture
def black_hole(open_receivers: ExitStack) -> BlackHole:
    return open_receivers.enter_context(closing(BlackHole()))
