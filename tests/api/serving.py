"""The API service on a real port, and requesters that call it over HTTP."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from euterpe.api.app import create_app
from euterpe.api.backpressure import ApiLimits
from euterpe.api.server import ApiServer
from euterpe.api.service import DEFAULT_TIMINGS, ApiTimings, DryRun
from euterpe.api.worker.service import WorkerSettings
from euterpe.domain.documents import PlanDocument, example_document
from euterpe.domain.errors import FieldError
from euterpe.domain.profiles import Profiles
from euterpe.domain.scopes import DEFAULT_SCOPES, Scope
from euterpe.domain.spec import JobSpec
from euterpe.domain.storage_profiles import StorageProfiles
from euterpe.net.policy import EgressPolicy
from euterpe.store.store import Store
from tests.domain.documents import MINIMAL, Document

CANARY = "canary-in-a-secret"
CREDENTIALS = {"type": "s3", "access_key_id": "AKIA", "secret_access_key": CANARY, "region": "eu-1"}
FORBIDDEN_BUCKET = "s3://forbidden/"
PLAN = example_document(PlanDocument)


class OneBucketForbidden:
    """A storage policy of an operator that forbids one bucket."""

    def problems(self, spec: JobSpec) -> tuple[FieldError, ...]:
        if spec.output.url == FORBIDDEN_BUCKET:
            return (FieldError(("output", "url"), "is not allowed here"),)
        return ()


class ScriptedDryRun:
    """A dry run that waits, fails or answers as a test requests."""

    def __init__(self) -> None:
        self.specs: list[JobSpec] = []
        self.error: Exception | None = None
        self.may_end, self.begun = threading.Event(), threading.Semaphore(0)
        self.may_end.set()

    def plan(self, spec: JobSpec) -> Mapping[str, Any]:
        self.specs.append(spec)
        self.begun.release()
        self.may_end.wait()
        if self.error is not None:
            raise self.error
        return PLAN

    def stop(self) -> None:
        self.may_end.set()


class Requester:
    """A requester with its own API key and an HTTP client."""

    def __init__(self, store: Store, url: str, name: str, scopes: tuple[Scope, ...] = DEFAULT_SCOPES) -> None:
        new = store.requesters.create(name, scopes)
        self.id, self.key = new.requester_id, new.api_key
        headers = {"authorization": f"Bearer {new.api_key}"}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False)

    def post(self, document: Document | None = None, **headers: str) -> httpx.Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post("/transcode", json=MINIMAL if document is None else document, headers=names)

    def submit(self, **fields: Any) -> str:
        """Submit a job and return its id."""
        answer = self.post({**MINIMAL, **fields})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job_id"])

    def status(self, *job_ids: str, wait_ms: int | None = None, etag: str | None = None) -> httpx.Response:
        params: dict[str, Any] = {"job_id": list(job_ids)}
        if wait_ms is not None:
            params["wait_ms"] = wait_ms
        headers = {"if-none-match": etag} if etag is not None else {}
        return self.http.get("/transcode/status", params=params, headers=headers)


class Served:
    def __init__(self, store: Store, url: str, end_waits: Callable[[], None]) -> None:
        self.store, self.url, self.end_waits = store, url, end_waits
        self._requesters: list[Requester] = []
        self.anonymous = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def requester(self, name: str = "studio", *scopes: Scope) -> Requester:
        self._requesters.append(Requester(self.store, self.url, name, scopes or DEFAULT_SCOPES))
        return self._requesters[-1]

    def wait_for_open_waits(self, count: int) -> None:
        """Poll the metrics until `count` requests wait.

        The test must wait, because the server notices a disconnect only after a delay.
        """
        while f"euterpe_http_waits {count}.0" not in self.anonymous.get("/metrics").text:
            pass

    def close(self) -> None:
        for client in (self.anonymous, *(requester.http for requester in self._requesters)):
            client.close()


@contextmanager
def serving(
    store: Store,
    limits: ApiLimits | None = None,
    egress: EgressPolicy | None = None,
    timings: ApiTimings = DEFAULT_TIMINGS,
    profiles: Profiles | None = None,
    *,
    storage_profiles: StorageProfiles | None = None,
    dry_run: DryRun | None = None,
    workers: WorkerSettings | None = None,
) -> Iterator[Served]:
    app = create_app(
        store,
        limits or ApiLimits(),
        OneBucketForbidden(),
        egress or EgressPolicy(),
        profiles=profiles,
        storage_profiles=storage_profiles,
        dry_run=dry_run,
        timings=timings,
        workers=workers or WorkerSettings(),
    )
    server = ApiServer(app, "127.0.0.1", 0)
    server.start()
    served = Served(store, server.url, app.state.end_waits)
    try:
        yield served
    finally:
        served.close()
        server.stop()


def field_errors(answer: httpx.Response) -> dict[tuple[str | int, ...], str]:
    """Return the error messages of a 422 answer, by location."""
    assert answer.status_code == 422, answer.text
    return {tuple(error["loc"]): error["msg"] for error in answer.json()["errors"]}


def assert_problem(answer: httpx.Response, status: int, code: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert (document["status"], document["code"]) == (status, code)
    assert set(document) - {"errors"} == {"type", "title", "status", "detail", "code"}
    assert answer.headers["x-request-id"]
