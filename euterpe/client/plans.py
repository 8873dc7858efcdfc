"""The client methods as generators without I/O ("sans I/O"), shared by the two clients.

A plan yields requests, and receives the response or error of each request. The synchronous and the
asynchronous client differ only in how they send a request.
"""

import math
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import TypeAlias, TypeVar

from euterpe.client import requests
from euterpe.client.documents import Document, Job
from euterpe.client.errors import ClientError, Gone, NotFound, StillRunning, Unreachable
from euterpe.client.requests import ApiRequest, ApiResponse
from euterpe.client.responses import Page, error_of, field_of, job_of, page_of, plan_of
from euterpe.client.retries import DEFAULT_RETRY, RetryPolicy

T = TypeVar("T")
Plan: TypeAlias = Generator[ApiRequest, ApiResponse | Unreachable, T]


class Plans:
    """The plans of one client. A plan repeats failed requests as often as `retry` allows."""

    def __init__(self, retry: RetryPolicy = DEFAULT_RETRY) -> None:
        self._retry = retry

    def send(self, call: ApiRequest) -> Plan[ApiResponse]:
        """Return the response to `call`. Retry the request if the policy allows it, else raise the error."""
        tried = 0
        while True:
            outcome = yield call
            tried += 1
            if isinstance(outcome, Unreachable):
                error: ClientError = outcome
            elif refusal := error_of(outcome):
                error = refusal
            else:
                return outcome
            pause = self._retry.pause_s(error, tried=tried, idempotent=call.idempotent)
            if pause is None:
                raise error
            call = replace(call, after_s=pause, outage=error if tried == 1 else None)

    def submitted(self, spec: Document | None, fields: Document, idempotency_key: str | None) -> Plan[Job]:
        call = requests.submit(_request({**(spec or {}), **fields}), idempotency_key)
        return job_of((yield from self.send(call)))

    def dry_run(self, spec: Document | None, fields: Document) -> Plan[Document]:
        call = requests.dry_run(_request({**(spec or {}), **fields}))
        return plan_of((yield from self.send(call)))

    def status(self, job_id: str) -> Plan[Job]:
        return job_of((yield from self.send(requests.status([job_id]))))

    def statuses(self, job_ids: Sequence[str]) -> Plan[dict[str, Job]]:
        found: list[Job] = []
        for start in range(0, len(job_ids), requests.MOST_IDS):
            some = job_ids[start : start + requests.MOST_IDS]
            if len(some) > 1:
                found += page_of((yield from self.send(requests.status(some)))).jobs
                continue
            with suppress(NotFound, Gone):
                found.append((yield from self.status(some[0])))
        return {job.job_id: job for job in found}

    def finished(self, job_id: str, timeout: float | None) -> Plan[Job]:
        """Long-poll until the job is finished. The server answers each poll after a change, or after 30 s."""
        deadline = None if timeout is None else monotonic() + timeout
        answer = yield from self.send(requests.status([job_id]))
        job, etag = job_of(answer), answer.headers.get("etag")
        while not job.is_finished:
            left_s = math.inf if deadline is None else deadline - monotonic()
            wait_s = min(left_s, requests.MOST_WAIT_S)
            if wait_s <= 0:
                raise StillRunning(f"job {job_id} is {job.status} after {timeout} s; it goes on")
            answer = yield from self.send(requests.status([job_id], wait_s, etag))
            if answer.status != 304:
                job, etag = job_of(answer), answer.headers.get("etag")
        return job

    def page(self, status: str | Sequence[str], limit: int | None, cursor: str | None) -> Plan[Page]:
        return page_of((yield from self.send(requests.jobs(status, limit, cursor))))

    def canceled(self, job_id: str) -> Plan[Job]:
        return job_of((yield from self.send(requests.cancel(job_id))))

    def retried(self, job_id: str) -> Plan[Job]:
        return job_of((yield from self.send(requests.retry(job_id))))

    def credentials_replaced(self, job_id: str, replacement: Document) -> Plan[int]:
        answer = yield from self.send(requests.replace_credentials(job_id, replacement))
        return int(field_of(answer, "credential_version"))

    def profiles(self) -> Plan[list[Document]]:
        return list(field_of((yield from self.send(requests.profiles())), "profiles"))


def _request(fields: Document) -> dict[str, object]:
    """Return the request body. A string in `source` or `output` is replaced by an object with this `url`."""
    return {
        name: {"url": value} if name in ("source", "output") and isinstance(value, str) else value
        for name, value in fields.items()
    }
