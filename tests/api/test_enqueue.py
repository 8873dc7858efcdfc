"""POST /transcode (contract §6, §9): `accepted-is-durable`, `same-key-same-job`, quotas."""

from concurrent.futures import ThreadPoolExecutor

from euterpe.api.backpressure import ApiLimits
from euterpe.domain.scopes import Scope
from euterpe.domain.states import JobStatus
from euterpe.domain.status import status_document
from euterpe.store.store import Store
from tests.api.serving import (
    CANARY,
    CREDENTIALS,
    FORBIDDEN_BUCKET,
    Requester,
    Served,
    assert_problem,
    field_errors,
    serving,
)
from tests.domain.documents import EXAMPLE, MINIMAL
from tests.store.jobs import advance, claim_one


def test_a_job_is_accepted_and_its_status_can_be_read_where_the_answer_says(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    answer = requester.post(EXAMPLE)
    assert answer.status_code == 202
    document = answer.json()
    assert (document["status"], document["external_id"]) == ("queued", "asset-42")
    assert requester.http.get(answer.headers["location"]).json() == document


def test_an_accepted_job_is_committed_before_the_answer(on_every_engine: Served) -> None:
    """The job is read through another connection, which sees only committed rows."""
    job_id = on_every_engine.requester().submit()
    assert on_every_engine.store.jobs.get(job_id).status == "queued"


def test_the_same_request_again_gets_the_stored_answer(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    first = requester.post(MINIMAL, idempotency_key="k")
    advance(on_every_engine.store, claim_one(on_every_engine.store), until=JobStatus.PROCESSING)
    again = requester.post(MINIMAL, idempotency_key="k")
    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert again.headers["location"] == first.headers["location"]


def test_new_credentials_do_not_make_it_another_request(requester: Requester) -> None:
    first = requester.post({**MINIMAL, "credentials": CREDENTIALS}, idempotency_key="k")
    again = requester.post(
        {**MINIMAL, "credentials": {**CREDENTIALS, "access_key_id": "NEW"}}, idempotency_key="k"
    )
    assert again.json()["job_id"] == first.json()["job_id"]


def test_another_request_under_the_same_key_is_a_conflict(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    requester.post(MINIMAL, idempotency_key="k")
    answer = requester.post({**MINIMAL, "priority": 51}, idempotency_key="k")
    assert_problem(answer, 409, "idempotency_conflict")


def test_duplicates_posted_in_parallel_make_one_job(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: requester.post(MINIMAL, idempotency_key="k"), range(64)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1


def test_a_key_that_is_too_long_or_not_ascii_is_refused(requester: Requester) -> None:
    assert requester.post(MINIMAL, idempotency_key="k" * 255).status_code == 202
    for key in ("k" * 256, "two words", ""):
        assert ("idempotency_key",) in field_errors(requester.post(MINIMAL, idempotency_key=key))


def test_all_errors_of_a_request_are_reported_at_once_and_no_value_is_echoed(requester: Requester) -> None:
    document = {
        **MINIMAL,
        "priority": 101,
        "queue": "-no",
        "credentials": {**CREDENTIALS, "region": CANARY * 9},
    }
    answer = requester.post(document)
    assert_problem(answer, 422, "invalid_request")
    assert set(field_errors(answer)) == {("priority",), ("queue",), ("credentials", "region")}
    assert CANARY not in answer.text


def test_what_the_operator_does_not_allow_is_refused_before_it_is_stored(requester: Requester) -> None:
    answer = requester.post({**MINIMAL, "output": {"url": FORBIDDEN_BUCKET}})
    assert field_errors(answer) == {("output", "url"): "is not allowed here"}


def test_a_body_that_is_not_json_says_where(requester: Requester) -> None:
    answer = requester.http.post("/transcode", content=b"{", headers={"content-type": "application/json"})
    assert "is not JSON at line 1" in field_errors(answer)[()]


def test_a_key_without_the_scope_may_not_submit(served: Served) -> None:
    reader = served.requester("reader", Scope.READ)
    answer = reader.post()
    assert_problem(answer, 403, "forbidden")
    assert 'scope="transcode:write"' in answer.headers["www-authenticate"]


def test_a_requester_over_its_quota_gets_429_with_retry_after(store: Store) -> None:
    with serving(store, ApiLimits(max_unfinished=2)) as served:
        requester, other = served.requester(), served.requester("other")
        first = requester.submit()
        requester.submit()
        refused = requester.post()
        assert_problem(refused, 429, "quota_exceeded")
        assert int(refused.headers["retry-after"]) > 0
        assert other.post().status_code == 202, "a quota is the requester's own"
        requester.http.post(f"/transcode/{first}/cancel")
        while (answer := requester.post()).status_code == 429:
            pass  # the jobs are counted again after 20 times the duration of the last count
        assert answer.status_code == 202


def test_a_retry_gets_its_answer_though_the_quota_is_used_up(store: Store) -> None:
    with serving(store, ApiLimits(max_unfinished=1)) as served:
        requester, other = served.requester(), served.requester("other")
        first = requester.post(MINIMAL, idempotency_key="k")
        again = requester.post(MINIMAL, idempotency_key="k")
        assert (again.status_code, again.json()) == (202, first.json())
        assert again.headers["idempotent-replayed"] == "true"
        conflict = requester.post({**MINIMAL, "priority": 51}, idempotency_key="k")
        assert_problem(conflict, 409, "idempotency_conflict")
        assert_problem(requester.post(MINIMAL, idempotency_key="k2"), 429, "quota_exceeded")
        assert ("idempotency_key",) in field_errors(requester.post(MINIMAL, idempotency_key="two words"))
        other.submit()
        assert_problem(other.post(MINIMAL, idempotency_key="k"), 429, "quota_exceeded")


def test_a_retry_gets_its_answer_though_the_queue_is_full(sqlite_store: Store) -> None:
    with serving(sqlite_store, ApiLimits(max_unfinished_of_all=1)) as served:
        requester = served.requester()
        first = requester.post(MINIMAL, idempotency_key="k")
        assert requester.post(MINIMAL, idempotency_key="k").json() == first.json()
        assert_problem(requester.post(MINIMAL, idempotency_key="k2"), 429, "queue_full")


def test_a_full_queue_takes_nothing_from_anybody(sqlite_store: Store) -> None:
    with serving(sqlite_store, ApiLimits(max_unfinished_of_all=2)) as served:
        requester, other = served.requester(), served.requester("other")
        requester.submit()
        other.submit()
        assert_problem(requester.post(), 429, "queue_full")
        assert_problem(other.post(), 429, "queue_full")


def test_without_its_database_the_service_answers_503_with_retry_after(
    requester: Requester, sqlite_store: Store
) -> None:
    sqlite_store.commits.stop()
    answer = requester.post()
    assert_problem(answer, 503, "database_unavailable")
    assert int(answer.headers["retry-after"]) > 0


def test_parallel_posts_never_exceed_the_quota(sqlite_store: Store) -> None:
    with serving(sqlite_store, ApiLimits(max_unfinished=5)) as served, ThreadPoolExecutor(16) as pool:
        requester = served.requester()
        codes = [answer.status_code for answer in pool.map(lambda _: requester.post(), range(40))]
        assert codes.count(202) == 5
        assert set(codes) == {202, 429}


def test_the_answer_is_the_document_that_the_store_has(requester: Requester, sqlite_store: Store) -> None:
    document = requester.post().json()
    assert document == status_document(sqlite_store.jobs.get(document["job_id"]))
