"""One requester's receivers, whatever they do, cost another requester at most one delivery of waiting."""

import pytest

from euterpe.store.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.dead_origins import announce, recorded, silent_origins
from tests.dispatch.receivers import Receiver
from tests.dispatch.stage import WatchedOutbox

BOTH = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
SQLITE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@pytest.fixture
def hostile(store: Store) -> NewRequester:
    return store.requesters.create("hostile")


def ended_before(outbox: WatchedOutbox, requester: NewRequester) -> int:
    """Wait for the first delivery of this requester; return how many of others had ended before it."""

    def own() -> list[int]:
        owners = [delivery.event.requester_id for delivery in outbox.settled]
        return [place for place, owner in enumerate(owners) if owner == requester.requester_id]

    outbox.wait_until(lambda: bool(own()))
    return own()[0]


@BOTH
@pytest.mark.parametrize("origins", [150, 1_000])
def test_a_new_requesters_event_is_sent_before_a_send_to_a_dead_origin_of_another_has_ended(
    store: Store,
    outbox: WatchedOutbox,
    requester: NewRequester,
    hostile: NewRequester,
    receiver: Receiver,
    *,
    origins: int,
) -> None:
    with silent_origins(origins) as dead:
        announce(store, hostile, dead, each=3)
        with recorded(store, deadline_s=5.0):
            outbox.wait_until(lambda: bool(outbox.postponed))  # its places are taken
            announce(store, requester, [receiver.url])
            assert ended_before(outbox, requester) == 0
