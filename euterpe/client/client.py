"""The synchronous client."""

from collections.abc import Iterator, Mapping, Sequence
from time import sleep
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from euterpe.client import plans
from euterpe.client.connection import OnOutage, answer_of, is_stream, options, request, unreachable
from euterpe.client.documents import Document, Event, Job, Progress, replacement
from euterpe.client.errors import ClientError, Unreachable
from euterpe.client.plans import Plan
from euterpe.client.requests import ApiRequest, ApiResponse
from euterpe.client.stream import EventWatch

T = TypeVar("T")


class Client:
    """A requester's way to Euterpe. Threads may share it. Close it, or use it in a `with`.

    A call that meets a lost connection, a busy server or an error of the server is made again, with backoff,
    unless that could do a thing twice; `on_outage` is told the error when that begins, once for each outage.
    Every error of a call is a `ClientError`.
    """

    def __init__(self, url: str, api_key: str, *, on_outage: OnOutage | None = None) -> None:
        self._http = httpx.Client(**options(url, api_key))
        self._on_outage = on_outage

    def submit(
        self, spec: Document | None = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> Job:
        """A new job from a spec, or from its fields; `source` and `output` may be their URLs alone.

        The same `idempotency_key` gives the same job. Without one a new key is made for each submit.
        """
        return self._follow(plans.submitted(spec, fields, idempotency_key))

    def status(self, job_id: str) -> Job:
        return self._follow(plans.status(job_id))

    def statuses(self, job_ids: Sequence[str]) -> dict[str, Job]:
        """By their ids; those that are not there are left out."""
        return self._follow(plans.statuses(job_ids))

    def wait(self, job_id: str, timeout: float | None = None) -> Job:
        """The job when it has finished, well or badly (see `Job.raise_for_failure`).

        `StillRunning` after `timeout` seconds.
        """
        return self._follow(plans.finished(job_id, timeout))

    def watch(self, job_id: str) -> Iterator[Event | Progress]:
        """All events of a job from its first to its last, each once, and its progress in between.

        Goes on by itself after a lost connection.
        """
        watch = EventWatch(job_id)
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
        """At once while it waits; a running job when its worker sees it."""
        return self._follow(plans.canceled(job_id))

    def retry(self, job_id: str) -> Job:
        """Queues a failed job again, while it has attempts left."""
        return self._follow(plans.retried(job_id))

    def replace_credentials(
        self,
        job_id: str,
        credentials: Document | None = None,
        *,
        source_url: str | None = None,
        output_urls: Mapping[str, str] | None = None,
    ) -> int:
        """Keys to storage, or the job's URLs with new signatures. Returns the new `credential_version`."""
        new = replacement(credentials, source_url, output_urls)
        return self._follow(plans.credentials_replaced(job_id, new))

    def jobs(self, *, status: str | Sequence[str] = (), limit: int | None = None) -> Iterator[Job]:
        """All jobs, newest first, `limit` in a page; pages are fetched as they are needed."""
        cursor = None
        while True:
            page = self._follow(plans.page(status, limit, cursor))
            yield from page.jobs
            cursor = page.cursor
            if cursor is None:
                return

    def profiles(self) -> list[Document]:
        return self._follow(plans.profiles())

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
                call = plan.send(self._make(call))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _make(self, call: ApiRequest) -> ApiResponse | Unreachable:
        self._pause(call.after_s, call.outage)
        try:
            return answer_of(self._http.request(**request(call)))
        except httpx.RequestError as error:
            return unreachable(error)

    def _pause(self, seconds: float, outage: ClientError | None) -> None:
        if outage is not None and self._on_outage is not None:
            self._on_outage(outage)
        sleep(seconds)
