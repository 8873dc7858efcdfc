"""Client and AsyncClient against a real HTTP server that answers by a script."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from euterpe.client import (
    AsyncClient,
    Busy,
    Client,
    ClientError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    JobFailed,
    MalformedApiKey,
    NotFound,
    RetryPolicy,
    ServerError,
    StillRunning,
    TooLarge,
    Unauthorized,
    UnexpectedAnswer,
    Unreachable,
)
from euterpe.domain.errors import FieldError
from tests.client.scripted_server import (
    AT_ONCE,
    JOB_ID,
    Answer,
    Disconnect,
    Reply,
    Request,
    Server,
    job,
    problem,
)
from tests.free_port import free_port

SPEC = {"source": {"url": "s3://in/a.mov"}, "output": {"url": "s3://out/a/"}, "profile": "h264-720p"}
CANARY = "canary-in-a-secret"
OTHER_ID = "0199a7c4-5b1e-7000-8000-000000000002"


class Jobs:
    """A fake API that accepts one job for each idempotency key, as Euterpe does."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def accept(self, request: Request) -> Reply:
        key = request.headers["idempotency-key"]
        replayed = {"idempotent-replayed": "true"} if key in self.keys else {}
        self.keys += [] if replayed else [key]
        return Answer(202, job(job_id=f"job-{self.keys.index(key)}"), replayed)

    def accept_and_disconnect(self, request: Request) -> Reply:
        self.accept(request)
        return Disconnect()


# -- submit


def test_a_spec_is_sent_as_it_is_with_the_key_of_the_requester(
    server: Server, client: Client, api_key: str
) -> None:
    server.script(Answer(202, job()))
    accepted = client.submit(SPEC)
    assert (accepted.job_id, accepted.status, accepted.is_finished) == (JOB_ID, "queued", False)
    (request,) = server.requests
    assert (request.method, request.path, request.json) == ("POST", "/transcode", SPEC)
    assert request.headers["authorization"] == f"Bearer {api_key}"
    assert request.headers["content-type"] == "application/json"


def test_a_spec_may_be_given_by_its_fields_and_locations_by_their_urls(
    server: Server, client: Client
) -> None:
    server.script(Answer(202, job()), Answer(202, job()))
    client.submit(source="s3://in/a.mov", output="s3://out/a/", profile="h264-720p")
    client.submit(SPEC, priority=90)
    assert [request.json for request in server.requests] == [SPEC, {**SPEC, "priority": 90}]


def test_a_submit_whose_answer_is_lost_makes_one_job(server: Server, client: Client) -> None:
    jobs = Jobs()
    server.script(jobs.accept_and_disconnect, problem(503, "overloaded", headers=AT_ONCE), jobs.accept)
    assert client.submit(SPEC).job_id == "job-0"
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    assert len({request.body for request in server.requests}) == 1


def test_an_outage_is_reported_once_and_the_next_one_again(
    server: Server, client: Client, outages: list[str]
) -> None:
    away = problem(503, "overloaded", headers=AT_ONCE)
    full = problem(429, "queue_full", headers=AT_ONCE)
    server.script(away, away, Answer(200, job()), full, Answer(200, job()))
    client.status(JOB_ID)
    assert outages == ["overloaded"]
    client.status(JOB_ID)
    assert outages == ["overloaded", "queue_full"]


def test_an_error_that_no_other_try_mends_is_no_outage(
    server: Server, client: Client, outages: list[str]
) -> None:
    server.script(problem(404, "not_found"))
    with pytest.raises(NotFound):
        client.status(JOB_ID)
    assert outages == []


def test_two_submits_are_two_jobs_unless_the_caller_gives_one_key(server: Server, client: Client) -> None:
    jobs = Jobs()
    server.script(*[jobs.accept] * 4)
    assert client.submit(SPEC).job_id != client.submit(SPEC).job_id
    first = client.submit(SPEC, idempotency_key="asset-42")
    assert client.submit(SPEC, idempotency_key="asset-42") == first
    assert server.requests[-1].headers["idempotency-key"] == "asset-42"


@pytest.mark.parametrize("key", ["", " a", "a\nb", "é", "a" * 256])
def test_a_key_that_no_header_can_carry_is_a_mistake(client: Client, key: str) -> None:
    with pytest.raises(ValueError, match="idempotency_key must be"):
        client.submit(SPEC, idempotency_key=key)


# -- errors and retries

ERRORS = [
    (400, Invalid),
    (401, Unauthorized),
    (403, Forbidden),
    (404, NotFound),
    (405, UnexpectedAnswer),
    (409, Conflict),
    (410, Gone),
    (413, TooLarge),
    (415, Invalid),
    (422, Invalid),
]


@pytest.mark.parametrize(("status", "kind"), ERRORS)
def test_each_refusal_has_its_type_and_is_not_asked_again(
    server: Server, client: Client, status: int, kind: type[ClientError]
) -> None:
    server.script(problem(status, "a_code", "the reason"))
    with pytest.raises(kind, match="the reason") as refused:
        client.status(JOB_ID)
    assert (refused.value.code, refused.value.request_id) == ("a_code", "r-1")
    assert len(server.requests) == 1


def test_an_invalid_request_tells_every_error_and_its_place(server: Server, client: Client) -> None:
    errors = [{"loc": ["outputs", 0, "name"], "msg": "is missing"}, {"loc": [], "msg": "is no good"}]
    server.script(problem(422, "invalid_request", "the request has 2 errors", errors=errors))
    with pytest.raises(Invalid) as refused:
        client.submit({})
    assert refused.value.errors == (
        FieldError(("outputs", 0, "name"), "is missing"),
        FieldError((), "is no good"),
    )
    assert str(refused.value) == "the request has 2 errors: outputs.0.name: is missing; body: is no good"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_temporary_error_is_retried_after_the_time_of_retry_after(
    server: Server, client: Client, status: int
) -> None:
    server.script(problem(status, "passing", headers=AT_ONCE), Answer(200, job("processing")))
    assert client.status(JOB_ID).status == "processing"


def test_a_lasting_error_is_raised_after_six_requests(server: Server, client: Client) -> None:
    server.script(*[problem(503, "database_unavailable", headers=AT_ONCE)] * 9)
    with pytest.raises(ServerError) as refused:
        client.status(JOB_ID)
    assert refused.value.code == "database_unavailable"
    assert len(server.requests) == 6


def test_a_server_that_is_busy_for_long_is_not_waited_for(server: Server, client: Client) -> None:
    server.script(problem(429, "quota_exceeded", headers={"retry-after": "3600"}))
    with pytest.raises(Busy) as refused:
        client.submit(SPEC)
    assert refused.value.retry_after == 3600.0
    assert len(server.requests) == 1


@pytest.mark.parametrize("reply", [Disconnect(), problem(500, "internal", headers=AT_ONCE)])
@pytest.mark.parametrize(
    "act",
    [
        lambda client: client.cancel(JOB_ID),
        lambda client: client.retry(JOB_ID),
        lambda client: client.replace_credentials(JOB_ID, {}),
    ],
    ids=["cancel", "retry", "replace_credentials"],
)
def test_what_may_have_been_done_is_not_done_twice(
    server: Server, client: Client, act: Callable[[Client], object], reply: Reply
) -> None:
    server.script(reply)
    with pytest.raises((Unreachable, ServerError)):
        act(client)
    assert len(server.requests) == 1


def test_a_request_that_was_certainly_not_applied_is_retried(server: Server, client: Client) -> None:
    server.script(problem(429, "busy", headers=AT_ONCE), Answer(202, job(cancel_requested=True)))
    assert client.cancel(JOB_ID).cancel_requested
    assert server.calls == [f"POST /transcode/{JOB_ID}/cancel"] * 2


def test_an_unreachable_server_is_an_error_with_its_address(api_key: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    with (
        Client(f"http://{address}", api_key, retry=RetryPolicy(attempts=2)) as client,
        pytest.raises(Unreachable, match=address) as refused,
    ):
        client.status(JOB_ID)
    assert refused.value.not_applied


@pytest.mark.parametrize("document", [b"<html>hello</html>", [], {"job_id": 7}, {"job_id": JOB_ID}])
def test_an_answer_of_another_program_is_reported_as_such(
    server: Server, client: Client, document: object
) -> None:
    server.script(Answer(200, document))
    with pytest.raises(UnexpectedAnswer, match="is this the URL of Euterpe"):
        client.status(JOB_ID)


@pytest.mark.parametrize("status", [404, 502])
def test_a_page_of_a_proxy_is_no_reason(server: Server, client: Client, status: int) -> None:
    server.script(Answer(status, b"<html>\xff</html>", AT_ONCE), *[Answer(status, b"", AT_ONCE)] * 5)
    with pytest.raises((NotFound, ServerError), match=f"answered {status} without a reason"):
        client.status(JOB_ID)


def test_a_redirect_does_not_take_the_key_along(server: Server, client: Client) -> None:
    server.script(Answer(307, None, {"location": "/elsewhere"}))
    with pytest.raises(UnexpectedAnswer, match="redirects are not followed"):
        client.status(JOB_ID)
    assert len(server.requests) == 1


# -- the key


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("key", ["", CANARY, "eut_0_0"])
def test_a_key_with_a_typo_is_refused_before_it_is_sent(kind: Callable[..., object], key: str) -> None:
    with pytest.raises(MalformedApiKey) as refused:
        kind("http://127.0.0.1:1", key)
    assert not key or key not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1",
        "ftp://host",
        "http://",
        "http://a:b@host",
        "http://host?x=1",
        "http://host#x",
        "http://host:99999",
        "http://[",
        "http://host:0",
        "http://host/\n",
        "http://\ud800",
    ],
)
def test_a_url_that_leads_nowhere_is_a_mistake(url: str, api_key: str) -> None:
    with pytest.raises(ValueError, match="url must"):
        Client(url, api_key)


def test_a_url_may_have_a_path(server: Server, api_key: str) -> None:
    server.script(Answer(200, job()))
    with Client(f"{server.url}/euterpe/", api_key) as client:
        client.status(JOB_ID)
    assert server.calls == ["GET /euterpe/transcode/status"]


def test_key_and_credentials_are_in_no_repr_no_error_and_no_log(
    server: Server, client: Client, api_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.script(problem(403, "forbidden"), problem(422, "invalid_request"), Disconnect())
    shown = [repr(client)]
    for act in (
        lambda: client.status(JOB_ID),
        lambda: client.submit(SPEC, credentials={"type": "s3", "secret_access_key": CANARY}),
        lambda: client.replace_credentials(JOB_ID, {"secret_access_key": CANARY}),
    ):
        with pytest.raises(ClientError) as refused:
            act()
        shown += [str(refused.value), repr(refused.value)]
    assert "httpx" in caplog.text
    for secret in (api_key, CANARY):
        assert secret not in caplog.text + "".join(shown)


# -- status, wait, list


def test_a_document_becomes_a_job(server: Server, client: Client) -> None:
    document = job("processing", progress=41.5, eta_seconds=12.0, a_field_to_come=1)
    server.script(Answer(200, document))
    found = client.status(JOB_ID)
    assert (found.progress, found.eta_seconds, found.document) == (41.5, 12.0, document)
    assert server.requests[0].query == [("job_id", JOB_ID)]


def test_many_jobs_are_asked_for_a_hundred_at_a_time(server: Server, client: Client) -> None:
    def answer(request: Request) -> Reply:
        return Answer(200, {"jobs": [job(job_id=job_id) for _, job_id in request.query], "missing": []})

    server.script(answer, answer, problem(404, "not_found"))
    job_ids = [f"job-{number}" for number in range(201)]
    assert list(client.statuses(job_ids)) == job_ids[:200], "the service does not have the last job"
    assert [len(request.query) for request in server.requests] == [100, 100, 1]


def test_one_of_many_is_its_document_alone(server: Server, client: Client) -> None:
    server.script(Answer(200, job("succeeded")))
    assert client.statuses([JOB_ID])[JOB_ID].status == "succeeded"


def test_a_wait_polls_for_changes_until_the_job_has_finished(server: Server, client: Client) -> None:
    server.script(
        Answer(200, job("queued"), {"etag": '"1"'}),
        Answer(304, None, {"etag": '"1"'}),
        problem(503, "overloaded", headers=AT_ONCE),
        Answer(200, job("processing"), {"etag": '"2"'}),
        Answer(200, job("succeeded"), {"etag": '"3"'}),
    )
    assert client.wait(JOB_ID).raise_for_failure().status == "succeeded"
    assert [request.headers.get("if-none-match") for request in server.requests] == [
        None,
        '"1"',
        '"1"',
        '"1"',
        '"2"',
    ]
    first, *others = [dict(request.query).get("wait_ms") for request in server.requests]
    assert first is None
    assert set(others) == {"30000"}


def test_a_wait_ends_with_its_time(server: Server, client: Client) -> None:
    server.script(Answer(200, job("queued")))
    with pytest.raises(StillRunning, match=r"is queued after 0 s"):
        client.wait(JOB_ID, timeout=0)


def test_a_wait_asks_for_no_more_time_than_it_has(server: Server, client: Client) -> None:
    server.script(Answer(200, job("queued")), Answer(200, job("succeeded")))
    client.wait(JOB_ID, timeout=7)
    assert 0 < int(dict(server.requests[1].query)["wait_ms"]) <= 7000


def test_a_failed_job_is_an_answer_and_an_error_only_on_demand(server: Server, client: Client) -> None:
    error = {"code": "source_forbidden", "message": "the source answered 403"}
    server.script(Answer(200, job("dead_letter", error=error)))
    failed = client.wait(JOB_ID)
    assert failed.is_finished
    with pytest.raises(JobFailed, match="ended as dead_letter: the source answered 403") as refused:
        failed.raise_for_failure()
    assert refused.value.code == "source_forbidden"


def test_pages_are_fetched_as_they_are_needed(server: Server, client: Client) -> None:
    server.script(
        Answer(200, {"jobs": [job(), job(job_id=OTHER_ID)], "next_cursor": "c1"}),
        Answer(200, {"jobs": [job("failed")], "next_cursor": None}),
    )
    found = client.jobs(status=["queued", "failed"], limit=2)
    assert [next(found).job_id, next(found).job_id] == [JOB_ID, OTHER_ID]
    assert len(server.requests) == 1
    assert [page.status for page in found] == ["failed"]
    narrowed = [("status", "queued"), ("status", "failed"), ("limit", "2")]
    assert [request.query for request in server.requests] == [narrowed, [*narrowed, ("cursor", "c1")]]


def test_one_status_may_be_a_word(server: Server, client: Client) -> None:
    server.script(Answer(200, {"jobs": [], "next_cursor": None}))
    assert list(client.jobs(status="failed")) == []
    assert server.requests[0].query == [("status", "failed")]


# -- the other calls


def test_a_failed_job_is_queued_again(server: Server, client: Client) -> None:
    server.script(Answer(202, job("queued")))
    assert client.retry(JOB_ID).status == "queued"
    assert server.calls == [f"POST /transcode/{JOB_ID}/retry"]


def test_new_credentials_get_a_version(server: Server, client: Client) -> None:
    server.script(Answer(200, {"credential_version": 2}), Answer(200, {"credential_version": 3}))
    assert client.replace_credentials(JOB_ID, {"type": "s3"}) == 2
    urls = {"source_url": "https://cdn/a?s=1", "output_urls": {"mp4.mp4": "https://cdn/b?s=1"}}
    assert client.replace_credentials(JOB_ID, **urls) == 3  # type: ignore[arg-type]
    assert server.calls == [f"PUT /transcode/{JOB_ID}/credentials"] * 2
    assert [request.json for request in server.requests] == [{"credentials": {"type": "s3"}}, urls]


def test_the_profiles_are_listed(server: Server, client: Client) -> None:
    profiles: list[dict[str, Any]] = [{"name": "h264-720p", "outputs": []}]
    server.script(Answer(200, {"profiles": profiles}))
    assert client.profiles() == profiles


def test_it_needs_nothing_but_httpx() -> None:
    script = "import sys, json, euterpe.client; print(json.dumps([*sys.modules]))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in json.loads(loaded.stdout)}
    assert {"euterpe", "httpx"} <= packages
    heavy = {"sqlalchemy", "pydantic", "cryptography", "typer", "starlette", "obstore", "av", "pyspark"}
    assert packages.isdisjoint(heavy)
