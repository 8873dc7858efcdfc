"""GET /transcode/status: one job or several, ETags and long polls."""

import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from euterpe.api.backpressure import ApiLimits
from euterpe.domain.scopes import Scope
from euterpe.domain.states import JobStatus
from euterpe.store.engine.ids import new_id
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from tests.api.serving import Requester, Served, assert_problem, field_errors, serving
from tests.clock import SettableClock
from tests.store.jobs import advance, claim_one

LONGEST_WAIT_MS = 30_000


def test_a_status_follows_the_job(on_every_engine: Served) -> None:
    requester, store = on_every_engine.requester(), on_every_engine.store
    job_id = requester.submit()
    assert requester.status(job_id).json()["status"] == "queued"
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    document = requester.status(job_id).json()
    assert (document["status"], document["attempt_count"]) == ("succeeded", 1)


def test_an_unknown_job_is_not_found(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    for unknown in (new_id(), "", "x", "\0", "é" * 300, "'; --"):
        assert_problem(requester.status(unknown), 404, "not_found")


def test_another_requesters_job_is_not_found(on_every_engine: Served) -> None:
    mine, stranger = on_every_engine.requester(), on_every_engine.requester("stranger")
    assert_problem(stranger.status(mine.submit()), 404, "not_found")


def test_a_pruned_job_is_gone(on_every_engine: Served, clock: SettableClock) -> None:
    requester, store = on_every_engine.requester(), on_every_engine.store
    kept, job_id = requester.submit(not_before="2200-01-01T00:00:00Z"), requester.submit()
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    clock.advance(1_000)
    list(store.prune.run(older_than_ms=0))
    assert_problem(requester.status(job_id), 410, "pruned")
    unknown = new_id()
    several = requester.status(job_id, kept, unknown).json()
    assert [job["job_id"] for job in several["jobs"]] == [kept]
    assert (several["pruned"], several["missing"]) == ([job_id], [unknown])


def test_several_jobs_are_answered_in_the_order_asked_and_each_once(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    first, second = requester.submit(), requester.submit()
    stranger = on_every_engine.requester("stranger").submit()
    document = requester.status(second, "nonsense", first, second, stranger).json()
    assert [job["job_id"] for job in document["jobs"]] == [second, first]
    assert (document["missing"], document["pruned"]) == (["nonsense", stranger], [])


def test_a_hundred_jobs_may_be_asked_for_and_no_more(requester: Requester) -> None:
    assert len(requester.status(*(new_id() for _ in range(100))).json()["missing"]) == 100
    assert field_errors(requester.status(*(new_id() for _ in range(101)))) == {
        ("job_id",): "must be given 1 to 100 times"
    }
    assert ("job_id",) in field_errors(requester.http.get("/transcode/status"))


def test_an_etag_answers_304_until_the_job_changes(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    job_id = requester.submit()
    etag = requester.status(job_id).headers["etag"]
    unchanged = requester.status(job_id, etag=etag)
    assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", etag)
    for known in (f'"other", W/{etag}', "*"):
        assert requester.status(job_id, etag=known).status_code == 304
    claim_one(on_every_engine.store)
    changed = requester.status(job_id, etag=etag)
    assert changed.status_code == 200
    assert changed.headers["etag"] != etag


def test_a_long_poll_answers_when_the_job_changes(on_every_engine: Served) -> None:
    requester, store = on_every_engine.requester(), on_every_engine.store
    job_id = requester.submit()
    etag = requester.status(job_id).headers["etag"]
    with ThreadPoolExecutor(1) as pool:
        polled = pool.submit(requester.status, job_id, wait_ms=LONGEST_WAIT_MS, etag=etag)
        on_every_engine.wait_for_open_waits(1)
        claim_one(store)
        assert polled.result().json()["status"] == "claimed"


def test_a_long_poll_of_a_disabled_requester_is_refused(served: Served) -> None:
    requester, store = served.requester(), served.store
    job_id = requester.submit()
    etag = requester.status(job_id).headers["etag"]
    with ThreadPoolExecutor(1) as pool:
        polled = pool.submit(requester.status, job_id, wait_ms=LONGEST_WAIT_MS, etag=etag)
        store.requesters.disable(requester.id)
        while requester.status(job_id).status_code == 200:
            pass  # the API caches a valid key for 2 s
        claim_one(store)
        assert polled.result().status_code == 401


def test_a_long_poll_of_several_jobs_answers_when_any_of_them_changes(on_every_engine: Served) -> None:
    requester, store = on_every_engine.requester(), on_every_engine.store
    job_ids = [requester.submit() for _ in range(3)]
    etag = requester.status(*job_ids).headers["etag"]
    with ThreadPoolExecutor(1) as pool:
        polled = pool.submit(requester.status, *job_ids, wait_ms=LONGEST_WAIT_MS, etag=etag)
        on_every_engine.wait_for_open_waits(1)
        claimed = claim_one(store).job_id
        jobs = polled.result().json()["jobs"]
    assert {job["job_id"]: job["status"] for job in jobs}[claimed] == "claimed"


def test_a_long_poll_without_an_etag_answers_the_end_whenever_it_comes(
    served: Served, requester: Requester, sqlite_store: Store
) -> None:
    job_id = requester.submit()
    job = claim_one(sqlite_store)
    advance(sqlite_store, job, until=JobStatus.UPLOADING)
    with ThreadPoolExecutor(1) as pool:
        polled = pool.submit(requester.status, job_id, wait_ms=LONGEST_WAIT_MS)
        served.wait_for_open_waits(1)
        sqlite_store.inbox.advance([Transition.advance(job, JobStatus.UPLOADING, JobStatus.SUCCEEDED)])
        assert polled.result().json()["status"] == "succeeded"


def test_a_long_poll_of_a_finished_job_does_not_wait(requester: Requester, sqlite_store: Store) -> None:
    job_id = requester.submit()
    advance(sqlite_store, claim_one(sqlite_store), until=JobStatus.SUCCEEDED)
    assert requester.status(job_id, wait_ms=LONGEST_WAIT_MS).json()["status"] == "succeeded"


def test_a_long_poll_whose_time_is_up_answers_what_there_is(requester: Requester) -> None:
    job_id = requester.submit()
    answer = requester.status(job_id, wait_ms=20)
    assert (answer.status_code, answer.json()["status"]) == (200, "queued")
    assert requester.status(job_id, wait_ms=20, etag=answer.headers["etag"]).status_code == 304


def test_a_long_poll_of_an_unknown_job_does_not_wait(requester: Requester) -> None:
    assert_problem(requester.status(new_id(), wait_ms=LONGEST_WAIT_MS), 404, "not_found")


def test_a_client_that_disconnects_ends_its_long_poll(served: Served, requester: Requester) -> None:
    job_id = requester.submit()
    with socket.create_connection((urlsplit(served.url).hostname, urlsplit(served.url).port)) as raw:
        raw.sendall(
            f"GET /transcode/status?job_id={job_id}&wait_ms={LONGEST_WAIT_MS} HTTP/1.1\r\n"
            f"host: x\r\nx-api-key: {requester.key}\r\n\r\n".encode()
        )
        served.wait_for_open_waits(1)
    served.wait_for_open_waits(0)


def test_long_polls_of_one_requester_are_bounded(sqlite_store: Store) -> None:
    with serving(sqlite_store, ApiLimits(waits_per_requester=0)) as served:
        requester = served.requester()
        job_id = requester.submit()
        assert_problem(requester.status(job_id, wait_ms=LONGEST_WAIT_MS), 429, "too_many_waits")
        assert requester.status(job_id).status_code == 200


def test_stopping_the_service_answers_its_long_polls(served: Served) -> None:
    requester = served.requester()
    job_id = requester.submit()
    with ThreadPoolExecutor(1) as pool:
        polled = pool.submit(requester.status, job_id, wait_ms=LONGEST_WAIT_MS)
        served.wait_for_open_waits(1)
        served.end_waits()
        assert polled.result().json()["status"] == "queued"


@pytest.mark.parametrize("wrong", ["-1", "30001", "1.5", "", "soon", "٣"])
def test_a_wait_is_a_number_of_milliseconds(requester: Requester, wrong: str) -> None:
    answer = requester.http.get("/transcode/status", params={"job_id": new_id(), "wait_ms": wrong})
    assert field_errors(answer) == {("wait_ms",): "must be a whole number from 0 to 30000"}


def test_a_status_needs_the_scope_to_read(served: Served) -> None:
    writer = served.requester("writer", Scope.WRITE)
    assert_problem(writer.status(writer.submit()), 403, "forbidden")
