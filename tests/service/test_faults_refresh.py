"""Test credentials that expire while a job runs, and refresh calls to the requester (contract §7)."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from euterpe.client.documents import Refresh
from euterpe.domain.replacement import new_secret
from euterpe.domain.rows import JobRow
from euterpe.domain.states import JobStatus
from euterpe.domain.units import iso
from euterpe.worker.credentials import RefreshTimings
from tests.dispatch.fake_receivers import BlackHole
from tests.net.servers import Server
from tests.service.receiver import Answer, Receiver, credentials_answer
from tests.service.worker_harness import Gate, S3Proxy, WorkerHarness, run_worker
from tests.storage.fake_stores import Call, Reply

pytest_plugins = ("tests.service.worker_fixtures",)

SHORT = RefreshTimings(promise_s=0.1, look_every_s=0.02, first_pause_s=0.01)
FORBIDDEN = Reply(403, body=b"<Error><Code>AccessDenied</Code></Error>")


class TokenStore:
    """An object store that checks session tokens.

    `accepted` contains the valid tokens. `used` contains the tokens that calls have sent.
    """

    def __init__(self, proxy: S3Proxy) -> None:
        self._proxy = proxy
        self.accepted = {"first"}
        self.used: list[str] = []
        # The answer to a call with an accepted token.
        self.answer_accepted: Callable[[Call], Reply] = proxy.forward
        proxy.answer = self._answer

    def _answer(self, call: Call) -> Reply:
        token = call.headers["x-amz-security-token"]
        self.used.append(token)
        return self.answer_accepted(call) if token in self.accepted else FORBIDDEN

    def expire_at(self, method: str, part: str) -> None:
        """Refuse the first matching call, or cut off its response.

        After that, accept only the second token.
        """

        def answer_accepted(call: Call) -> Reply:
            if call.method != method or part not in call.target:
                return self._proxy.forward(call)
            self.accepted, self.answer_accepted = {"second"}, self._proxy.forward
            if method != "GET":
                return FORBIDDEN
            reply = self._proxy.forward(call)
            return replace(reply, sent=len(reply.body) // 2)

        self.answer_accepted = answer_accepted


@pytest.fixture
def tokens(proxy: S3Proxy) -> TokenStore:
    return TokenStore(proxy)


@pytest.fixture
def refresh_timings() -> RefreshTimings:
    """Return the timings of the worker. Tests parametrize them."""
    return SHORT


@pytest.fixture
def harness(
    tmp_path: Path, proxy_server: Server, bucket: Path, proxy: S3Proxy, refresh_timings: RefreshTimings
) -> Iterator[WorkerHarness]:
    assert proxy.answer == proxy.forward
    with run_worker(
        tmp_path, proxy_server, bucket, refresh_timings=refresh_timings, refresh_deadline_s=0.3
    ) as harness:
        yield harness


@pytest.fixture
def requester(receiver: Receiver, harness: WorkerHarness) -> Receiver:
    """Return the receiver of the refresh calls."""
    receiver.secrets.append(harness.webhook_secret)
    return receiver


@pytest.fixture
def black_hole() -> Iterator[BlackHole]:
    with closing(BlackHole()) as opened:
        yield opened


def token(harness: WorkerHarness, value: str, **other: str) -> dict[str, str]:
    return {**harness.keys, "session_token": value, **other}


def bring_token(harness: WorkerHarness, value: str) -> Callable[[Refresh], Answer]:
    return lambda _: credentials_answer(token(harness, value))


def put_token(harness: WorkerHarness, job_id: str, value: str) -> int:
    """Replace the credentials as PUT /transcode/{job_id}/credentials does. Return their version."""
    secret = new_secret(dict(harness.store.jobs.get(job_id).spec), {"credentials": token(harness, value)})
    return harness.store.credentials.replace(job_id, harness.requester_id, secret)


def assert_refused(job: JobRow) -> None:
    assert (job.status, job.error_code) == ("failed", "source_forbidden")
    assert job.refresh_count == 3, "the budget of refreshes is spent, but not exceeded"


@pytest.mark.parametrize("call", ["HEAD clip", "GET clip", "PUT partNumber=2"])
def test_a_job_goes_on_with_the_credentials_of_the_answer(
    harness: WorkerHarness, proxy: S3Proxy, tokens: TokenStore, requester: Receiver, call: str
) -> None:
    tokens.expire_at(*call.split())
    requester.refresh = bring_token(harness, "second")
    job_id = harness.submit(credentials=token(harness, "first"), refresh_url=requester.refresh_url)
    job = harness.await_end(job_id)
    assert (job.status, job.last_error, job.attempt_count) == ("succeeded", None, 1)
    assert (job.credential_version, job.refresh_count) == (2, 1)
    (refresh,) = requester.refreshes
    assert (refresh.job_id, refresh.credential_version, refresh.reason) == (job_id, 1, "forbidden")
    assert proxy.count("DELETE", "uploadId") == proxy.count("POST", "uploads") - 1, "no upload may be left"


def test_a_refresh_call_has_the_format_of_the_jobs_webhooks(
    harness: WorkerHarness, tokens: TokenStore, requester: Receiver
) -> None:
    tokens.accepted = {"second"}
    requester.refresh = bring_token(harness, "second")
    url, credentials = requester.refresh_url, token(harness, "first")
    job_id = harness.submit(credentials=credentials, refresh_url=url, webhook_format="standard")
    assert harness.await_end(job_id).status == "succeeded"
    ((headers, body),) = requester.refresh_requests
    document = Webhook(harness.webhook_secret).verify(body, headers)
    assert (document["job_id"], document["event_id"]) == (job_id, headers["webhook-id"])


@pytest.mark.parametrize("refresh_timings", [replace(SHORT, promise_s=60.0)], ids=["long promise"])
def test_a_job_waits_for_credentials_that_were_promised(
    harness: WorkerHarness, tokens: TokenStore, requester: Receiver
) -> None:
    promised = Gate()

    def promise(_: Refresh) -> Answer:
        promised.pass_through()
        return 202, b""

    tokens.accepted = {"second"}
    requester.refresh = promise
    job_id = harness.submit(credentials=token(harness, "first"), refresh_url=requester.refresh_url)
    with promised.held():
        pass
    assert put_token(harness, job_id, "second") == 2
    job = harness.await_end(job_id)
    assert (job.status, job.refresh_count, len(requester.refreshes)) == ("succeeded", 1, 1)


@pytest.mark.parametrize(
    "answer",
    [
        (202, b""),
        (204, b""),
        (500, b""),
        (302, b""),
        (200, b""),
        (200, b"<html>"),
        (200, b'{"credentials": {"type": "s3"}}'),
        (200, b'{"credentials": null}'),
        (200, b"x" * 300_000),
    ],
    ids=lambda answer: f"{answer[0]}-{answer[1][:20].decode()}",
)
def test_without_newer_credentials_nothing_goes_on(
    harness: WorkerHarness, tokens: TokenStore, requester: Receiver, answer: Answer
) -> None:
    tokens.accepted = {"second"}
    requester.refresh = lambda _: answer
    job_id = harness.submit(credentials=token(harness, "first"), refresh_url=requester.refresh_url)
    job = harness.await_end(job_id)
    assert_refused(job)
    assert (job.credential_version, len(requester.refreshes)) == (1, 3)
    assert tokens.used == ["first"], "what was refused is not tried again"


def test_a_requester_that_is_silent_costs_its_deadline_and_no_more(
    harness: WorkerHarness, tokens: TokenStore, requester: Receiver, black_hole: BlackHole
) -> None:
    tokens.accepted = {"second"}
    job_id = harness.submit(credentials=token(harness, "first"), refresh_url=black_hole.url)
    job = harness.await_end(job_id)
    assert_refused(job)
    assert (tokens.used, len(black_hole.received)) == (["first"], 3)
    assert requester.refreshes == []


def test_credentials_that_do_not_work_either_spend_the_budget(
    harness: WorkerHarness, tokens: TokenStore, requester: Receiver
) -> None:
    tokens.accepted = set()
    requester.refresh = lambda call: credentials_answer(token(harness, f"v{call.credential_version + 1}"))
    job_id = harness.submit(
        credentials=token(harness, "v1"), refresh_url=requester.refresh_url, max_attempts=2
    )
    job = harness.await_end(job_id)
    assert_refused(job)
    assert job.credential_version == 4
    assert tokens.used == ["v1", "v2", "v3", "v4"]
    tokens.accepted = {"v5"}
    harness.store.control.retry(job_id)
    assert harness.await_end(job_id).status == "succeeded", "a retry may refresh again"


def test_an_attempt_takes_what_a_put_has_brought_since_the_last_one(
    harness: WorkerHarness, tokens: TokenStore, proxy: S3Proxy
) -> None:
    tokens.accepted = {"second"}
    refused = Gate()
    answer = proxy.answer

    def refuse(call: Call) -> Reply:
        proxy.answer = answer
        refused.pass_through()
        return answer(call)

    proxy.answer = refuse
    job_id = harness.submit(credentials=token(harness, "first"))
    with refused.held():
        put_token(harness, job_id, "second")
    job = harness.await_end(job_id)
    assert (job.status, job.refresh_count, job.attempt_count) == ("succeeded", 0, 1)


def test_credentials_that_end_soon_are_renewed_before_they_are_used(
    harness: WorkerHarness, tokens: TokenStore, requester: Receiver
) -> None:
    tokens.accepted = {"second"}
    requester.refresh = bring_token(harness, "second")
    job_id = harness.submit(
        credentials=token(harness, "first", expires_at=in_seconds(30)), refresh_url=requester.refresh_url
    )
    job = harness.await_end(job_id)
    assert (job.status, job.refresh_count) == ("succeeded", 1)
    assert [call.reason for call in requester.refreshes] == ["expiring"]
    assert set(tokens.used) == {"second"}


def test_credentials_that_end_soon_are_used_while_they_last_when_no_others_come(
    harness: WorkerHarness, tokens: TokenStore, requester: Receiver
) -> None:
    requester.refresh = lambda _: (503, b"")
    job_id = harness.submit(
        credentials=token(harness, "first", expires_at=in_seconds(30)), refresh_url=requester.refresh_url
    )
    job = harness.await_end(job_id)
    assert (job.status, job.refresh_count) == ("succeeded", 1)
    assert set(tokens.used) == {"first"}


def test_new_credentials_lead_to_no_endpoint_that_the_operator_has_not_allowed(
    harness: WorkerHarness, tokens: TokenStore, requester: Receiver
) -> None:
    tokens.accepted = {"second"}
    elsewhere = token(harness, "second", endpoint="http://169.254.169.254")
    requester.refresh = lambda _: credentials_answer(elsewhere)
    job_id = harness.submit(credentials=token(harness, "first"), refresh_url=requester.refresh_url)
    job = harness.await_end(job_id)
    assert (job.status, job.error_code) == ("failed", "endpoint_not_allowed")
    released = ["storage_endpoint_missing"] * 2
    assert harness.error_codes(job_id) == [*released, "endpoint_not_allowed"], "another worker may allow it"


@pytest.mark.parametrize("refresh_timings", [replace(SHORT, promise_s=3600.0)], ids=["endless promise"])
def test_a_job_that_waits_for_credentials_can_be_canceled(
    harness: WorkerHarness, tokens: TokenStore, requester: Receiver
) -> None:
    promised = Gate()

    def promise(_: Refresh) -> Answer:
        promised.pass_through()
        return 202, b""

    tokens.accepted = set()
    requester.refresh = promise
    job_id = harness.submit(credentials=token(harness, "first"), refresh_url=requester.refresh_url)
    with promised.held():
        harness.store.control.cancel(job_id)
        harness.worker.lease_keeper.beat()
    job = harness.await_end(job_id)
    assert (job.status, job.error_code) == (JobStatus.FAILED, "canceled")


def in_seconds(seconds: int) -> str:
    return iso(int(time.time() * 1000) + seconds * 1000)


def test_a_refusal_is_reported_without_the_credentials(
    harness: WorkerHarness, tokens: TokenStore, requester: Receiver
) -> None:
    tokens.accepted = set()
    job_id = harness.submit(credentials=token(harness, "canary"), max_attempts=1)
    job = harness.await_end(job_id)
    assert (job.error_code, (job.last_error or {})["retryable"]) == ("source_forbidden", False)
    events = harness.store.jobs.events(job_id)
    assert "canary" not in json.dumps([*events, job, requester.refreshes], default=str)
