"""POST cancel and retry, and PUT credentials, of a job."""

from typing import Any

import pytest

from euterpe.domain.canonical import join_secrets
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.retry import JobError
from euterpe.domain.scopes import Scope
from euterpe.domain.states import JobStatus
from euterpe.store.engine.ids import new_id
from euterpe.store.store import Store
from tests.api.serving import CANARY, CREDENTIALS, Requester, Served, assert_problem, field_errors
from tests.store.attempts import fail_job
from tests.store.jobs import advance, claim_one, enqueue

CALLS = (("POST", "cancel"), ("POST", "retry"), ("PUT", "credentials"))


def fail_one(store: Store) -> None:
    fail_job(store, claim_one(store), JobError(ErrorCode.SOURCE_EMPTY, "the source is empty", "claimed"))


def test_a_queued_job_is_canceled_at_once(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    job_id = requester.submit()
    answer = requester.http.post(f"/transcode/{job_id}/cancel")
    assert answer.status_code == 202
    assert (answer.json()["status"], answer.json()["error"]["code"]) == ("failed", "canceled")
    assert answer.json() == requester.status(job_id).json()


def test_a_running_job_is_asked_to_stop(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    job_id = requester.submit()
    claim_one(on_every_engine.store)
    for _ in range(2):
        answer = requester.http.post(f"/transcode/{job_id}/cancel")
        assert answer.status_code == 202
        assert (answer.json()["status"], answer.json()["cancel_requested"]) == ("claimed", True)


def test_a_finished_job_cannot_be_canceled(on_every_engine: Served) -> None:
    requester, store = on_every_engine.requester(), on_every_engine.store
    job_id = requester.submit()
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    assert_problem(requester.http.post(f"/transcode/{job_id}/cancel"), 409, "conflict")


def test_a_failed_job_with_attempts_left_is_retried(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    job_id = requester.submit()
    fail_one(on_every_engine.store)
    answer = requester.http.post(f"/transcode/{job_id}/retry")
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")


def test_a_job_that_has_not_failed_cannot_be_retried(requester: Requester) -> None:
    assert_problem(requester.http.post(f"/transcode/{requester.submit()}/retry"), 409, "conflict")


def test_new_credentials_raise_the_version_and_reach_the_owner(on_every_engine: Served) -> None:
    requester, store = on_every_engine.requester(), on_every_engine.store
    job_id = requester.submit(credentials=CREDENTIALS)
    new = {"credentials": {**CREDENTIALS, "secret_access_key": "renewed"}}
    answer = requester.http.put(f"/transcode/{job_id}/credentials", json=new)
    assert (answer.status_code, answer.json()) == (200, {"credential_version": 2})
    job = claim_one(store)
    secret, version = store.credentials.open(job)
    credentials = join_secrets(dict(store.jobs.get(job_id).spec), secret).credentials
    assert version == 2
    assert credentials is not None
    assert credentials.secret_access_key.get_secret_value() == "renewed"  # type: ignore[union-attr]


def test_credentials_that_do_not_fit_the_job_are_refused_and_not_echoed(requester: Requester) -> None:
    job_id = requester.submit()
    wrongs: tuple[Any, ...] = (
        {"credentials": {**CREDENTIALS, "region": CANARY * 9}},
        {"credentials": {**CREDENTIALS, "type": "gs"}},
        {"credentials": None},
        {"source_url": "https://elsewhere/a.mov?sig=1"},
        {"other": CANARY},
        {},
        [],
    )
    for wrong in wrongs:
        answer = requester.http.put(f"/transcode/{job_id}/credentials", json=wrong)
        assert field_errors(answer)
        assert CANARY not in answer.text
    assert requester.status(job_id).json()["credential_version"] == 1


def test_credentials_without_the_new_signed_url_are_refused_and_vice_versa(requester: Requester) -> None:
    job_id = requester.submit(source={"url": f"https://in.example/a.mov?{CANARY}"}, credentials=CREDENTIALS)
    call = f"/transcode/{job_id}/credentials"
    whole = {"credentials": CREDENTIALS, "source_url": "https://in.example/a.mov?new"}
    for name, other in (("source_url", "credentials"), ("credentials", "source_url")):
        refused = requester.http.put(call, json={other: whole[other]})
        assert field_errors(refused)[(name,)].startswith("is required")
    assert requester.http.put(call, json=whole).json() == {"credential_version": 2}


def test_a_finished_job_takes_no_credentials(requester: Requester, sqlite_store: Store) -> None:
    job_id = requester.submit()
    advance(sqlite_store, claim_one(sqlite_store), until=JobStatus.SUCCEEDED)
    answer = requester.http.put(f"/transcode/{job_id}/credentials", json={"credentials": CREDENTIALS})
    assert_problem(answer, 409, "conflict")


@pytest.mark.parametrize(("method", "call"), CALLS)
def test_a_job_that_is_not_there_or_not_mine_is_not_found(
    served: Served, requester: Requester, method: str, call: str
) -> None:
    stranger = served.requester("stranger")
    (theirs,) = enqueue(served.store, requester_id=requester.id)
    for job_id in (theirs, new_id(), "nonsense"):
        answer = stranger.http.request(
            method, f"/transcode/{job_id}/{call}", json={"credentials": CREDENTIALS}
        )
        assert_problem(answer, 404, "not_found")


@pytest.mark.parametrize(("method", "call"), CALLS)
def test_who_may_only_read_may_change_nothing(served: Served, method: str, call: str) -> None:
    reader = served.requester("reader", Scope.READ)
    answer = reader.http.request(method, f"/transcode/{new_id()}/{call}")
    assert_problem(answer, 403, "forbidden")
