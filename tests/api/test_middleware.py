"""Middleware: the request id, security headers and log line of every answer, with no secret in them."""

from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import LogCapture

from euterpe.store.errors import StoreError
from tests.api.serving import CANARY, CREDENTIALS, Requester, Served, assert_problem
from tests.domain.documents import MINIMAL


@pytest.fixture
def log() -> Iterator[LogCapture]:
    captured = LogCapture()
    before = structlog.get_config()
    structlog.configure(processors=[captured])
    yield captured
    structlog.configure(**before)


ADDRESSES = (
    ("GET", "/healthz", 200),
    ("GET", "/transcode/jobs", 401),
    ("GET", "/nowhere", 404),
    ("DELETE", "/transcode", 405),
    ("POST", "/transcode/", 404),
    ("TRACE", "/transcode/status", 405),
    ("HEAD", "/transcode/x/events", 405),
)


@pytest.mark.parametrize(("method", "path", "status"), ADDRESSES)
def test_every_answer_has_its_request_id_and_the_security_headers(
    served: Served, method: str, path: str, status: int
) -> None:
    answer = served.anonymous.request(method, path, headers={"x-request-id": "mine-1"})
    assert answer.status_code == status
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers
    if status >= 400 and method != "HEAD":
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("wrong", ["", "a b", "a" * 65, "é", '"><script>'])
def test_an_id_that_is_not_sane_is_replaced(served: Served, wrong: str) -> None:
    ids = {
        served.anonymous.get("/healthz", headers={b"x-request-id": wrong.encode()}).headers["x-request-id"]
        for _ in range(2)
    }
    assert len(ids) == 2
    assert wrong not in ids


def test_a_method_that_is_not_there_says_which_are(served: Served) -> None:
    answer = served.anonymous.get("/transcode")
    assert_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"


def test_an_address_that_is_not_there_leads_to_the_docs(served: Served) -> None:
    answer = served.anonymous.get("/")
    assert_problem(answer, 404, "no_route")
    assert "/docs" in answer.json()["detail"]


def test_what_nobody_expected_is_a_problem_without_details_and_a_traceback_in_the_log(
    served: Served, requester: Requester, log: LogCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("in the machine room")

    monkeypatch.setattr(served.store.jobs, "page", broken)
    answer = requester.http.get("/transcode/jobs", headers={"x-request-id": "mine-1"})
    assert_problem(answer, 500, "internal")
    assert "machine room" not in answer.text
    failed, request = log.entries
    assert failed["request_id"] == request["request_id"] == "mine-1"
    assert "ZeroDivisionError: in the machine room" in failed["traceback"]
    assert request["status"] == 500


def test_the_text_of_an_internal_error_is_not_shown_to_the_requester(
    served: Served, requester: Requester, log: LogCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreError("column x of host y")

    monkeypatch.setattr(served.store.jobs, "page", broken)
    answer = requester.http.get("/transcode/jobs")
    assert_problem(answer, 500, "internal")
    assert "column x" not in answer.text
    assert log.entries[0]["event"] == "request_failed"


def test_a_request_is_one_line_in_the_log(requester: Requester, log: LogCapture) -> None:
    job_id = requester.submit()
    requester.http.post(f"/transcode/{job_id}/cancel", headers={"x-request-id": "mine-1"})
    line = log.entries[-1]
    assert (line["event"], line["log_level"], line["request_id"]) == ("request", "info", "mine-1")
    assert (line["requester_id"], line["job_id"]) == (requester.id, job_id)
    assert (line["method"], line["route"], line["status"]) == ("POST", "/transcode/{job_id}/cancel", 202)


def test_the_line_of_a_submit_names_the_job(requester: Requester, log: LogCapture) -> None:
    answers = [requester.post(MINIMAL, idempotency_key="k") for _ in range(2)]
    (job_id,) = {answer.json()["job_id"] for answer in answers}
    first, again = log.entries
    assert (first["job_id"], first["replayed"]) == (job_id, False)
    assert (again["job_id"], again["replayed"]) == (job_id, True)


def test_no_key_no_query_no_body_and_no_unknown_path_is_logged(
    served: Served, requester: Requester, log: LogCapture
) -> None:
    requester.post({**MINIMAL, "credentials": CREDENTIALS}, idempotency_key=CANARY)
    requester.post({**MINIMAL, "queue": CANARY.upper(), CANARY: 1})
    requester.http.get("/transcode/jobs", params={"status": CANARY})
    served.anonymous.get(f"/{CANARY}?{CANARY}", headers={"x-api-key": CANARY})
    requester.http.post(f"/transcode/{CANARY}/cancel")
    assert len(log.entries) == 5
    for secret in (CANARY, CANARY.upper(), requester.key):
        assert secret not in repr(log.entries)
