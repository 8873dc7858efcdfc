"""Invalid input raises a typed error that names the field, and nothing is half-written."""

from typing import Any

import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.errors import InvalidSpec, InvalidTransition
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.store.errors import StoreError
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.attempts import fail_job, release_job
from tests.store.jobs import SPEC, claim_one, enqueue, new_job, statuses

ODD_NAMES: tuple[Any, ...] = ("", "a\0b", "\ud800", "x" * 256, None, 7, b"x", ["x"])
ODD_COUNTS: tuple[Any, ...] = (-1, 10**400, 1.0, "1", None, True, float("nan"))
ODD_DOCUMENTS: tuple[Any, ...] = (
    {"a": float("nan")},
    {"a": float("inf")},
    {"a\0": 1},
    {"a": ["b\0"]},
    {"a": "\ud800"},
    {"a": {1, 2}},
    {"a": b"bytes"},
    {"a": "x" * 10_000_000},
)


@pytest.mark.parametrize("field", ["requester_id", "queue", "group_id", "external_id", "source_ref"])
def test_an_invalid_name_is_refused_by_its_field(field: str) -> None:
    for odd in ODD_NAMES:
        if not (odd is None and field in ("group_id", "external_id", "source_ref")):
            with pytest.raises(InvalidSpec, match=field):
                new_job(**{field: odd})


@pytest.mark.parametrize("field", ["priority", "max_attempts", "group_limit", "not_before"])
def test_an_invalid_number_is_refused_by_its_field(field: str) -> None:
    for odd in ODD_COUNTS:
        if not (odd is None and field == "not_before"):
            with pytest.raises(InvalidSpec, match=field):
                new_job(**{field: odd})


def test_claims_refuse_odd_workers_limits_leases_and_queues(store: Store) -> None:
    for claim in (store.inbox.claim, store.outbox.claim):
        for odd in ODD_NAMES:
            with pytest.raises(InvalidSpec, match="worker_id"):
                claim(odd, 1)
        for odd in (*ODD_COUNTS, 0, 1_001):
            with pytest.raises(InvalidSpec, match="limit"):
                claim("w", odd)
        for odd in (*ODD_COUNTS, 0, 10**12):
            with pytest.raises(InvalidSpec, match="lease_ms"):
                claim("w", 1, lease_ms=odd)
    for queue in ("", "a b", "a\0", "Ä", None):
        with pytest.raises(InvalidSpec, match="queue"):
            store.inbox.claim("w", 1, queues=(queue,))  # type: ignore[arg-type]
        with pytest.raises(InvalidSpec, match="queue"):
            store.control.pause(queue)  # type: ignore[arg-type]


def test_a_workers_documents_are_json_or_refused_whole(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    for odd in ODD_DOCUMENTS:
        with pytest.raises(InvalidSpec, match="source_info"):
            store.inbox.advance(
                [Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING, {"source_info": odd})]
            )
        with pytest.raises(InvalidSpec, match="timings"):
            fail_job(store, job, JobError(ErrorCode.SOURCE_UNREACHABLE, "it broke", "claimed"), timings=odd)
    assert statuses(store, [job_id]) == [JobStatus.CLAIMED]


def test_any_program_output_can_be_an_error_message(store: Store) -> None:
    (job_id,) = enqueue(store)
    fail_job(
        store,
        claim_one(store),
        JobError(ErrorCode.ENCODE_FAILED, "\0\ud800\x1b[31m" + "é" * 100_000, "processing"),
    )
    assert store.jobs.get(job_id).error_code == "encode_failed"


def test_unusual_but_good_documents_come_back_as_they_were(store: Store) -> None:
    (job_id,) = enqueue(store)
    good = {"title": "Ключ 🎬 \\u0000 \"'", "n": [0, -1, 2**53, 1.5, None, True], "": {}}
    job = claim_one(store)
    store.inbox.advance(
        [Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING, {"source_info": good})]
    )
    assert store.jobs.get(job_id).source_info == good


def test_no_field_of_a_worker_can_bypass_the_fence(store: Store, clock: SettableClock) -> None:
    """`fenced-writes`: `advance` accepts no column of the fence and no transition from QUEUED to CLAIMED."""
    (job_id,) = enqueue(store)
    stale = claim_one(store, lease_ms=1_000)
    clock.advance(1_001)
    store.inbox.sweep()
    clock.advance(10_000)
    owner = claim_one(store, "w2")
    for name in ("version", "key", "source", "target", "delay_ms", "outcome", "last_error"):
        with pytest.raises(InvalidSpec, match=name):
            Transition.advance(stale, JobStatus.CLAIMED, JobStatus.FETCHING, {name: owner.claim_version})
    release_job(store, owner)
    with pytest.raises(InvalidTransition):
        Transition.advance(owner, JobStatus.QUEUED, JobStatus.CLAIMED)
    assert statuses(store, [job_id]) == [JobStatus.QUEUED]


def test_progress_is_a_percentage(store: Store) -> None:
    enqueue(store)
    job = claim_one(store)
    for odd in (-1, 101, float("nan"), "50", None, True):
        with pytest.raises(InvalidSpec, match="progress"):
            store.inbox.advance(
                [Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING, {"progress": odd})]
            )


def test_a_queue_named_twice_is_one_queue(store: Store) -> None:
    enqueue(store, 3)
    assert len(store.inbox.claim("w", 10, queues=("default", "default"))) == 3


def test_a_value_that_the_driver_cannot_send_is_a_typed_error(store: Store) -> None:
    for call in (
        lambda: store.jobs.get("\ud800"),
        lambda: store.control.cancel("\ud800"),
        lambda: store.jobs.deliveries(limit=10**30),
        lambda: store.replay.between(-(10**30), 10**30),
    ):
        with pytest.raises(StoreError) as refused:
            call()
        assert not refused.value.retryable


def test_a_batch_of_the_largest_specs_is_enqueued_and_read_back(store: Store) -> None:
    """libSQL's server refuses messages over 16 MiB, and its client refuses answers over 4 MiB.

    The specs of this batch have 24 MiB in total.
    """
    large = {**SPEC, "padding": "x" * 240_000}
    job_ids = enqueue(store, 100, spec=large)
    assert [row.job_id for row in store.jobs.page(limit=200)] == sorted(job_ids, reverse=True)
    assert len(store.jobs.many(job_ids, requester_id="r1")) == 100


def test_sweeps_are_not_held_up_by_large_specs(store: Store, clock: SettableClock) -> None:
    """libSQL's client refuses answers over 4 MiB. Sixty specs of this size have 14 MiB."""
    large = {**SPEC, "padding": "x" * 240_000}
    for _ in range(20):
        enqueue(store, 3, spec=large)
    assert len(store.inbox.claim("w", 60, lease_ms=1_000)) == 60
    clock.advance(1_001)
    assert store.inbox.sweep() == 60
    assert len(store.inbox.claim("w", 60)) == 0
    clock.advance(10_000)
    assert len(store.inbox.claim("w", 60)) == 60
