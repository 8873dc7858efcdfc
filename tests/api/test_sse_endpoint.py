"""GET /transcode/{job_id}/events: the event stream of a job (SSE)."""

from contextlib import ExitStack
from itertools import pairwise

import pytest

from euterpe.api.backpressure import ApiLimits
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import JobError
from euterpe.domain.scopes import Scope
from euterpe.domain.states import JobStatus
from euterpe.store.queue.progress import ProgressReport
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from tests.api.serving import Requester, Served, assert_problem, field_errors, serving
from tests.api.sse_reader import open_event_stream
from tests.store.attempts import fail_job
from tests.store.jobs import PATH, advance, claim_one

EVENTS_OF_SUCCESS = [f"job.{status}" for status in PATH]


def fail(store: Store, *, unrecoverable: bool = False) -> None:
    retry_class = RetryClass.UNRECOVERABLE if unrecoverable else RetryClass.PERMANENT
    fail_job(
        store,
        claim_one(store),
        JobError(ErrorCode.SOURCE_EMPTY, "the source is empty", "claimed", retry_class),
    )


def test_the_stream_of_a_finished_job_has_all_its_events_in_order_and_ends(on_every_engine: Served) -> None:
    requester, store = on_every_engine.requester(), on_every_engine.store
    job_id = requester.submit()
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    with open_event_stream(requester, job_id) as stream:
        frames = list(stream)
    stored = store.jobs.events(job_id)
    assert [(frame.id, frame.event, frame.data) for frame in frames] == [
        (event.sequence, event.type, event.payload) for event in stored
    ]
    assert [frame.event for frame in frames] == EVENTS_OF_SUCCESS


def test_events_come_as_they_happen_until_the_terminal_one(on_every_engine: Served) -> None:
    requester, store = on_every_engine.requester(), on_every_engine.store
    job_id = requester.submit()
    with open_event_stream(requester, job_id) as stream:
        job = claim_one(store)
        assert next(stream).event == "job.claimed"
        store.inbox.advance([Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING)])
        assert next(stream).event == "job.fetching"
        for source, target in pairwise(PATH[1:]):
            store.inbox.advance([Transition.advance(job, source, target)])
        assert [frame.event for frame in stream] == EVENTS_OF_SUCCESS[2:]


def test_the_stream_of_a_disabled_requester_ends_without_further_events(served: Served) -> None:
    requester, store = served.requester(), served.store
    job_id = requester.submit()
    with open_event_stream(requester, job_id) as stream:
        job = claim_one(store)
        assert next(stream).event == "job.claimed"
        store.requesters.disable(requester.id)
        while requester.http.get("/transcode/status", params={"job_id": job_id}).status_code == 200:
            pass  # the API caches a valid key for 2 s
        store.inbox.advance([Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING)])
        assert list(stream) == []


def test_a_long_history_is_sent_without_a_pause(requester: Requester, sqlite_store: Store) -> None:
    job_id = requester.submit(
        status_webhook_url="https://requester.example/hook", webhook_events=["progress"]
    )
    job = claim_one(sqlite_store)
    for _ in range(1_000):
        sqlite_store.progress.write([ProgressReport(job, 1.0)])
    advance(sqlite_store, job, until=JobStatus.SUCCEEDED)
    answer = requester.http.get(f"/transcode/{job_id}/events")
    ids = [int(line.removeprefix("id: ")) for line in answer.text.splitlines() if line.startswith("id: ")]
    assert ids == list(range(1, 1_006))
    assert ": beat" not in answer.text


def test_a_stream_resumes_after_the_last_event_that_was_seen(on_every_engine: Served) -> None:
    requester, store = on_every_engine.requester(), on_every_engine.store
    job_id = requester.submit()
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    with open_event_stream(requester, job_id, after=3) as stream:
        assert [frame.id for frame in stream] == [4, 5]


def test_a_client_that_has_seen_the_last_event_gets_204(requester: Requester, sqlite_store: Store) -> None:
    job_id = requester.submit()
    advance(sqlite_store, claim_one(sqlite_store), until=JobStatus.SUCCEEDED)
    answer = requester.http.get(f"/transcode/{job_id}/events", headers={"last-event-id": "5"})
    assert (answer.status_code, answer.content) == (204, b"")


def test_a_permanent_failure_ends_the_stream_and_a_retry_can_be_followed(
    requester: Requester, sqlite_store: Store
) -> None:
    job_id = requester.submit()
    fail(sqlite_store)
    with open_event_stream(requester, job_id) as stream:
        assert [frame.event for frame in stream] == ["job.claimed", "job.failed"]
    requester.http.post(f"/transcode/{job_id}/retry")
    advance(sqlite_store, claim_one(sqlite_store), until=JobStatus.SUCCEEDED)
    with open_event_stream(requester, job_id, after=2) as stream:
        assert [frame.event for frame in stream] == ["job.queued", *EVENTS_OF_SUCCESS]


def test_a_dead_letter_is_sent_after_its_failure(requester: Requester, sqlite_store: Store) -> None:
    job_id = requester.submit()
    with open_event_stream(requester, job_id) as stream:
        fail(sqlite_store, unrecoverable=True)
        assert [frame.event for frame in stream] == ["job.claimed", "job.failed", "job.dead_letter"]


def test_progress_is_sent_without_an_id(requester: Requester, sqlite_store: Store) -> None:
    job_id = requester.submit()
    job = claim_one(sqlite_store)
    with open_event_stream(requester, job_id) as stream:
        assert next(stream).event == "job.claimed"
        sqlite_store.progress.write([ProgressReport(job, 41.5, eta_seconds=12.0, speed=3.1)])
        frame = next(stream)
    assert (frame.event, frame.id) == ("progress", None)
    assert frame.json == {
        "job_id": job_id,
        "status": "claimed",
        "progress": 41.5,
        "eta_seconds": 12.0,
        "speed": 3.1,
    }


def test_each_of_many_streams_of_one_job_has_every_event(requester: Requester, sqlite_store: Store) -> None:
    job_id = requester.submit()
    with ExitStack() as stack:
        streams = [stack.enter_context(open_event_stream(requester, job_id)) for _ in range(20)]
        advance(sqlite_store, claim_one(sqlite_store), until=JobStatus.SUCCEEDED)
        for stream in streams:
            events = [frame.event for frame in stream if frame.id is not None]
            assert events == EVENTS_OF_SUCCESS


def test_streams_of_one_requester_are_bounded_and_a_closed_one_makes_room(sqlite_store: Store) -> None:
    with serving(sqlite_store, ApiLimits(waits_per_requester=1)) as served:
        requester, other = served.requester(), served.requester("other")
        job_id, others = requester.submit(), other.submit()
        events = f"/transcode/{job_id}/events"
        with open_event_stream(requester, job_id):
            refused = requester.http.get(events)
            assert_problem(refused, 429, "too_many_waits")
            assert int(refused.headers["retry-after"]) > 0
            with open_event_stream(other, others):
                pass
        served.wait_for_open_waits(0)
        with open_event_stream(requester, job_id):
            pass


def test_streams_of_all_together_are_bounded(sqlite_store: Store) -> None:
    with serving(sqlite_store, ApiLimits(waits=1)) as served:
        requester, other = served.requester(), served.requester("other")
        others = other.submit()
        with open_event_stream(requester, requester.submit()):
            assert_problem(other.http.get(f"/transcode/{others}/events"), 503, "overloaded")
        served.wait_for_open_waits(0)
        with open_event_stream(other, others):
            pass


def test_stopping_the_service_ends_its_streams(sqlite_store: Store) -> None:
    with ExitStack() as stack, serving(sqlite_store) as served:
        requester = served.requester()
        stream = stack.enter_context(open_event_stream(requester, requester.submit()))
        served.end_waits()
        assert list(stream) == []


def test_a_job_that_is_not_there_or_not_mine_is_not_found(served: Served, requester: Requester) -> None:
    stranger = served.requester("stranger")
    job_id = requester.submit()
    for unknown in (job_id, job_id[:-1] + "x", "%00"):
        assert_problem(stranger.http.get(f"/transcode/{unknown}/events"), 404, "not_found")


@pytest.mark.parametrize("wrong", ["-1", "1.5", "last", "9" * 10])
def test_a_last_event_id_is_the_number_of_an_event(requester: Requester, wrong: str) -> None:
    answer = requester.http.get(f"/transcode/{requester.submit()}/events", headers={"last-event-id": wrong})
    assert ("last-event-id",) in field_errors(answer)


def test_events_need_the_scope_to_read(served: Served) -> None:
    writer = served.requester("writer", Scope.WRITE)
    assert_problem(writer.http.get(f"/transcode/{writer.submit()}/events"), 403, "forbidden")
