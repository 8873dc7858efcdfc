"""An outage of the database during deliveries: no thread dies, and no event is lost."""

import threading
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import structlog

from euterpe.domain.rows import EventRow
from euterpe.domain.states import OutboxStatus
from euterpe.store.store import Store
from tests.dispatch.dispatcher_harness import add_events, dispatching, watch
from tests.dispatch.fake_receivers import TIMEOUT_S, Received, Receiver, Reply
from tests.service.store.processes.child_process import open_store
from tests.store import outages
from tests.store.outages import Fragile

# SQLite is left out, because an open file does not become unavailable.
pytestmark = pytest.mark.parametrize("engine", ["libsql", "postgres"], indirect=True)


DELIVERED = {OutboxStatus.DELIVERED}


@pytest.fixture
def database(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fragile]:
    """Yield a separate server for each test, because an outage would affect other tests."""
    started = outages.start(engine, tmp_path_factory.mktemp(f"fragile-{engine}"))
    yield started
    started.stop()


@pytest.fixture
def store(database: Fragile) -> Iterator[Store]:
    with open_store(database.url) as opened:
        yield opened


@pytest.fixture
def outage_logged() -> Iterator[threading.Event]:
    """Yield an event that is set once the dispatcher logs that the database is unavailable."""
    logged = threading.Event()

    def note_outage(_: Any, __: str, line: MutableMapping[str, Any]) -> str:
        if line["event"] == "database_unavailable":
            logged.set()
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[note_outage])
    yield logged
    structlog.configure(**before)


def test_everything_is_delivered_after_an_outage_in_the_middle(
    database: Fragile, store: Store, receiver: Receiver, outage_logged: threading.Event
) -> None:
    outbox, is_away = watch(store), threading.Event()

    def wait_for_the_outage(request: Received) -> Reply:
        if len(receiver.received) > 30:
            is_away.wait(TIMEOUT_S)
        del request
        return Reply(204)

    receiver.respond = wait_for_the_outage
    requester = store.requesters.create("newsroom")
    job_ids = add_events(store, requester, receiver.url, jobs=20, steps=5)
    with dispatching(store, lease_ms=3_000, heartbeat_ms=500, deadline_s=1.5):
        receiver.wait_for(31)
        with outages.away(database, store):
            is_away.set()
            assert outage_logged.wait(TIMEOUT_S)
        with open_store(database.url) as after:
            # Read the rows, because `settled` lacks an event if the connection breaks after the commit of the
            # event's result.
            outbox.wait_until(lambda: {event.status for event in events_of(after, job_ids)} == DELIVERED)
            events = events_of(after, job_ids)
    assert {one.event_id: one.body.decode() for one in receiver.received} == {
        event.event_id: event.payload for event in events
    }
    assert len(events) == 100


def events_of(store: Store, job_ids: list[str]) -> list[EventRow]:
    return [event for job_id in job_ids for event in store.jobs.events(job_id)]
