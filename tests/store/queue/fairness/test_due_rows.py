"""Delayed rows that become due together: the backlog of a requester does not delay other requesters."""

from euterpe.domain.retry import Redeliver
from euterpe.domain.states import Lane
from euterpe.store.queue.outbox import Delivery
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.jobs import SPEC, enqueue, new_job

BACKLOG = 300


def lanes(store: Store, requester_id: str, table: str = "inbox_jobs") -> dict[str, int]:
    with store.database.snapshot() as connection:
        rows = connection.exec_driver_sql(
            f"SELECT lane, count(*) FROM {table} "  # noqa: S608  names of this test
            f"WHERE requester_id = '{requester_id}' GROUP BY lane"
        )
        return {lane: count for lane, count in rows}  # noqa: C416  to mypy a row is not a pair


def test_due_jobs_of_one_requester_do_not_hold_up_another(store: Store, clock: SettableClock) -> None:
    at = clock.now_ms + 1_000
    enqueue(store, BACKLOG, requester_id="hostile", not_before=at)
    enqueue(store, 3, requester_id="small", not_before=at + 1)
    enqueue(store, 1, requester_id="tomorrow", not_before=at + 86_400_000)
    clock.advance(2_000)
    store.inbox.sweep(100)
    assert lanes(store, "small") == {Lane.READY: 3}
    assert lanes(store, "hostile") == {Lane.READY: 100, Lane.DELAYED: BACKLOG - 100}
    assert lanes(store, "tomorrow") == {Lane.DELAYED: 1}


def test_more_requesters_than_a_sweep_reads_have_their_turn(store: Store, clock: SettableClock) -> None:
    """In the index, `small` comes after sixty requesters whose delayed jobs are not due yet."""
    at = clock.now_ms + 1_000
    store.enqueue.many([new_job(requester_id=f"r{number:03}", not_before=at * 2) for number in range(60)])
    enqueue(store, BACKLOG, requester_id="hostile", not_before=at)
    enqueue(store, 1, requester_id="small", not_before=at + 1)
    clock.advance(2_000)
    store.inbox.sweep(10)
    assert lanes(store, "small") == {Lane.DELAYED: 1}
    store.inbox.sweep(10)
    assert lanes(store, "small") == {Lane.READY: 1}


def test_every_due_job_is_moved_in_the_end(store: Store, clock: SettableClock) -> None:
    at = clock.now_ms + 1_000
    for number in range(4):
        enqueue(store, 30, requester_id=f"r{number}", not_before=at, group_id="g" if number == 3 else None)
    clock.advance(2_000)
    for _ in range(12):
        store.inbox.sweep(10)
    assert [lanes(store, f"r{number}") for number in range(3)] == [{Lane.READY: 30}] * 3
    assert lanes(store, "r3") == {Lane.READY: 1, Lane.BLOCKED: 29}


def test_due_events_of_one_requester_do_not_hold_up_another(store: Store, clock: SettableClock) -> None:
    for requester_id, jobs in (("hostile", 30), ("small", 1)):
        enqueue(store, jobs, requester_id=requester_id, spec={**SPEC, "webhook_events": ["claimed"]})
        store.inbox.claim("w1", 100)
    failed = store.outbox.claim("d1", 100)
    later = Redeliver(1_000, "answered 503")
    hostile = [event for event in failed if event.requester_id == "hostile"]
    store.outbox.settle([Delivery(event, later, 503) for event in hostile])
    clock.advance(1)
    store.outbox.settle([Delivery(event, later, 503) for event in failed if event not in hostile])
    clock.advance(2_000)
    store.outbox.sweep(5)
    assert lanes(store, "small", "job_outbox_events") == {Lane.READY: 1}
    assert lanes(store, "hostile", "job_outbox_events") == {Lane.READY: 10, Lane.DELAYED: 20}
