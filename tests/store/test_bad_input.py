"""Bad input gets a typed error that names the field, and nothing is half-written."""

from typing import Any

import pytest

from euterpe.domain.errors import InvalidSpec
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.store.inbox import Advance
from euterpe.store.store import Store
from tests.store.jobs import claim_one, enqueue, new_job, statuses

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
def test_a_name_that_cannot_be_one_is_refused_by_its_field(field: str) -> None:
    for odd in ODD_NAMES:
        if not (odd is None and field in ("group_id", "external_id", "source_ref")):
            with pytest.raises(InvalidSpec, match=field):
                new_job(**{field: odd})


@pytest.mark.parametrize("field", ["priority", "max_attempts", "group_limit", "not_before"])
def test_a_number_that_cannot_be_one_is_refused_by_its_field(field: str) -> None:
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
    for queue in ("", "a b", "a\0", "Q", None):
        with pytest.raises(InvalidSpec, match="queue"):
            store.inbox.claim("w", 1, queues=(queue,))  # type: ignore[arg-type]
        with pytest.raises(InvalidSpec, match="queue"):
            store.control.pause(queue)  # type: ignore[arg-type]


def test_what_a_worker_brings_is_json_or_refused_whole(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    for odd in ODD_DOCUMENTS:
        with pytest.raises(InvalidSpec, match="source_info"):
            store.inbox.advance([Advance(job, JobStatus.CLAIMED, JobStatus.FETCHING, {"source_info": odd})])
        with pytest.raises(InvalidSpec, match="timings"):
            store.inbox.fail(job, JobError("io", "it broke", "claimed"), timings=odd)
    assert statuses(store, [job_id]) == [JobStatus.CLAIMED]


def test_whatever_a_foreign_program_printed_can_be_an_errors_message(store: Store) -> None:
    (job_id,) = enqueue(store)
    store.inbox.fail(claim_one(store), JobError("ffmpeg", "\0\ud800\x1b[31m" + "é" * 100_000, "processing"))
    assert store.jobs.get(job_id)["last_error"]["code"] == "ffmpeg"


def test_unusual_but_good_documents_come_back_as_they_were(store: Store) -> None:
    (job_id,) = enqueue(store)
    good = {"title": "Ключ 🎬 \\u0000 \"'", "n": [0, -1, 2**53, 1.5, None, True], "": {}}
    job = claim_one(store)
    store.inbox.advance([Advance(job, JobStatus.CLAIMED, JobStatus.FETCHING, {"source_info": good})])
    assert store.jobs.get(job_id)["source_info"] == good
