"""Findings of a review of issue 13 in the claim desk. Each test states the wanted behaviour."""

import time
from collections.abc import Collection, Iterator

import pytest

from euterpe.control.claim_desk import ClaimDesk, DeskTimings
from euterpe.control.lease_tokens import LeaseClaim, LeaseKey, LeaseTokens
from euterpe.store.engine.ids import new_id
from euterpe.store.engine.wakeup import Topic
from euterpe.store.queue.claims import ClaimRequest
from euterpe.store.store import Store
from tests.store.jobs import SPEC, enqueue

LARGE = {**SPEC, "metadata": {"text": "x" * 200_000}}


def desk_of(store: Store, find: object = None) -> ClaimDesk:
    return ClaimDesk(
        store.inbox.claim_for,
        find or store.inbox.repeated,  # type: ignore[arg-type]
        store.database.listen(Topic.INBOX),
        most_jobs=store.database.engines.read_limit,
        timings=DeskTimings(poll_s=0.2),
    )


@pytest.mark.parametrize("engine", ["sqlite", "libsql"], indirect=True)
def test_lost_answers_of_large_jobs_do_not_stop_the_desk(store: Store) -> None:
    """After a restart of the API, 60 workers repeat their claims, and one worker claims for the first time."""
    enqueue(store, 60, spec=LARGE)
    requests = [ClaimRequest(f"w{n}", 1, ("default",), 60_000, f"c{n}") for n in range(60)]
    for n in range(0, 60, 10):
        assert all(store.inbox.claim_for(requests[n : n + 10]))
    enqueue(store, 1, queue="other")
    desk = desk_of(store)
    desk.start()
    try:
        for request in requests:
            desk.enter(request)
        waiting = desk.enter(ClaimRequest("fresh", 1, ("other",), 60_000))
        assert waiting.jobs.result(10)
    finally:
        desk.stop()


class Asks(Collection[str]):
    """The worker's wait ends while the desk looks at the result."""

    def __init__(self) -> None:
        self.then = lambda: None

    def __contains__(self, _: object) -> bool:
        self.then()
        return False

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def test_a_wait_that_ends_during_the_look_is_answered(store: Store) -> None:
    """`is_urgent |= …` in the claim thread, without the lock, overwrites what `leave` has set."""
    asked = Asks()
    # The queue is known to be empty, and the poll is far away.
    desk = ClaimDesk(
        store.inbox.claim_for,
        lambda _: asked,
        store.database.listen(Topic.INBOX),
        timings=DeskTimings(poll_s=60.0),
    )
    desk.start()
    try:
        first = desk.enter(ClaimRequest("w0", 1), waits=False)
        first.jobs.result(10)
        idle = desk.enter(ClaimRequest("w1", 1))
        time.sleep(0.5)
        left: list[bool] = []
        waiting = None

        def leave() -> None:
            while waiting is None:
                time.sleep(0.01)
            asked.then = lambda: None
            left.append(desk.leave(waiting))

        asked.then = leave
        waiting = desk.enter(ClaimRequest("w2", 1, claim_id="c2"))
        waiting.jobs.result(5)
        assert left == [False]
        del idle
    finally:
        desk.stop()


def test_a_token_of_a_key_that_was_added_half_a_second_ago_is_not_refused_for_good() -> None:
    """403 invalid_lease_token ends the attempt. `_MISSES_EVERY_S` hides a new key for a second."""
    now, rows = [0.0], [[LeaseKey("k1", b"x" * 32)]]
    here = LeaseTokens(lambda: rows[0], clock=lambda: now[0])
    there = LeaseTokens(lambda: rows[0], clock=lambda: now[0])
    claim = LeaseClaim(new_id(), new_id(), 1)
    here.mint(claim, "p")  # reads the keys
    now[0] = 0.1
    rows[0] = [LeaseKey("k2", b"y" * 32), *rows[0]]
    now[0] = 0.5
    token = there.mint(claim, "p")
    assert here.verify(token, "p", job_id=claim.job_id) == claim
