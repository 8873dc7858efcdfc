"""The synchronous client, on httpx.Client."""

from collections.abc import Iterator, Mapping, Sequence
from time import sleep
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from euterpe.client.connection import OnOutage, answer_of, is_stream, options, request, unreachable
from euterpe.client.documents import Document, Event, Job, Progress, replacement
from euterpe.client.errors import ClientError, Unreachable
from euterpe.client.plans import Plan, Plans
from euterpe.client.requests import ApiRequest, ApiResponse
from euterpe.client.retries import DEFAULT_RETRY, RetryPolicy
from euterpe.client.stream import EventWatch

T = TypeVar("T")


class Client:
    """A thread-safe client for the HTTP API. Close it, or use it in a `with` statement.

    A request that fails because of a lost connection, a busy server or a server error is retried with
    backoff, unless the repeated request could take effect a second time. `on_outage` is called with the first
    error of each outage. If no further retry is allowed, the method raises a `ClientError`.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        on_outage: OnOutage | None = None,
        retry: RetryPolicy = DEFAULT_RETRY,
    ) -> None:
        self._http = httpx.Client(**options(url, api_key))
        self._on_outage, self._retry = on_outage, retry
        self._plans = Plans(retry)

    def submit(
        self, spec: Document | None = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> Job:
        """Submit a job. `fields` replace the fields of `spec`. `source` and `output` may be given as URLs.

        A call with the same `idempotency_key` returns the same job. By default, each call uses a new key.
        """
        return self._follow(self._plans.submitted(spec, fields, idempotency_key))

    def dry_run(self, spec: Document | None = None, **fields: Any) -> Document:
        """Return the plan of a job: the outputs that it would make from its source. No job is stored.

        Raise `Invalid` if the job would fail.
        """
        return self._follow(self._plans.dry_run(spec, fields))

    def status(self, job_id: str) -> Job:
        return self._follow(self._plans.status(job_id))

    def statuses(self, job_ids: Sequence[str]) -> dict[str, Job]:
        """Return the jobs by id. Leave out jobs that do not exist or were pruned."""
        return self._follow(self._plans.statuses(job_ids))

    def wait(self, job_id: str, timeout: float | None = None) -> Job:
        """Return the job when it is finished. The job may have failed: see `Job.raise_for_failure`.

        Raise `StillRunning` after `timeout` seconds.
        """
        return self._follow(self._plans.finished(job_id, timeout))

    def watch(self, job_id: str) -> Iterator[Event | Progress]:
        """Yield each event of a job once, in order. Between the events, yield progress documents.

        Reconnect and resume after a lost connection.
        """
        watch = EventWatch(job_id, self._retry)
        while not watch.is_over:
            self._pause(watch.pause_s, watch.outage)
            try:
                with self._http.stream(**request(watch.call())) as response:
                    if not is_stream(response):
                        response.read()
                        watch.refused(answer_of(response))
                        continue
                    for chunk in response.iter_bytes():
                        yield from watch.take(chunk)
                        if watch.is_over:
                            return
                watch.ended()
            except httpx.RequestError as error:
                watch.lost(unreachable(error))

    def cancel(self, job_id: str) -> Job:
        """Cancel a job: a waiting job at once, a running job at its worker's next heartbeat."""
        return self._follow(self._plans.canceled(job_id))

    def retry(self, job_id: str) -> Job:
        """Queue a failed job again, if it has unused attempts."""
        return self._follow(self._plans.retried(job_id))

    def replace_credentials(
        self,
        job_id: str,
        credentials: Document | None = None,
        *,
        source_url: str | None = None,
        output_urls: Mapping[str, str] | None = None,
        watermark_urls: Mapping[str, str] | None = None,
    ) -> int:
        """Replace the job's storage keys or signed URLs, and return the new `credential_version`."""
        new = replacement(credentials, source_url, output_urls, watermark_urls)
        return self._follow(self._plans.credentials_replaced(job_id, new))

    def jobs(self, *, status: str | Sequence[str] = (), limit: int | None = None) -> Iterator[Job]:
        """Yield all jobs, newest first. Fetch a page of `limit` jobs when the previous page is used up."""
        cursor = None
        while True:
            page = self._follow(self._plans.page(status, limit, cursor))
            yield from page.jobs
            cursor = page.cursor
            if cursor is None:
                return

    def profiles(self) -> list[Document]:
        return self._follow(self._plans.profiles())

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._http.base_url)!r})"

    def _follow(self, plan: Plan[T]) -> T:
        try:
            call = next(plan)
            while True:
                call = plan.send(self._send(call))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _send(self, call: ApiRequest) -> ApiResponse | Unreachable:
        self._pause(call.after_s, call.outage)
        try:
            return answer_of(self._http.request(**request(call)))
        except httpx.RequestError as error:
            return unreachable(error)

    def _pause(self, seconds: float, outage: ClientError | None) -> None:
        if outage is not None and self._on_outage is not None:
            self._on_outage(outage)
        sleep(seconds)
