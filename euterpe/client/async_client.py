"""The asynchronous client, on httpx.AsyncClient."""

from asyncio import sleep
from collections.abc import AsyncIterator, Mapping, Sequence
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


class AsyncClient:
    """A `Client` for asyncio, with the same methods. Close it with `aclose`, or use it with `async with`."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        on_outage: OnOutage | None = None,
        retry: RetryPolicy = DEFAULT_RETRY,
    ) -> None:
        self._http = httpx.AsyncClient(**options(url, api_key))
        self._on_outage, self._retry = on_outage, retry
        self._plans = Plans(retry)

    async def submit(
        self, spec: Document | None = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> Job:
        return await self._follow(self._plans.submitted(spec, fields, idempotency_key))

    async def dry_run(self, spec: Document | None = None, **fields: Any) -> Document:
        return await self._follow(self._plans.dry_run(spec, fields))

    async def status(self, job_id: str) -> Job:
        return await self._follow(self._plans.status(job_id))

    async def statuses(self, job_ids: Sequence[str]) -> dict[str, Job]:
        return await self._follow(self._plans.statuses(job_ids))

    async def wait(self, job_id: str, timeout: float | None = None) -> Job:
        return await self._follow(self._plans.finished(job_id, timeout))

    async def watch(self, job_id: str) -> AsyncIterator[Event | Progress]:
        watch = EventWatch(job_id, self._retry)
        while not watch.is_over:
            await self._pause(watch.pause_s, watch.outage)
            try:
                async with self._http.stream(**request(watch.call())) as response:
                    if not is_stream(response):
                        await response.aread()
                        watch.refused(answer_of(response))
                        continue
                    async for chunk in response.aiter_bytes():
                        for message in watch.take(chunk):
                            yield message
                        if watch.is_over:
                            return
                watch.ended()
            except httpx.RequestError as error:
                watch.lost(unreachable(error))

    async def cancel(self, job_id: str) -> Job:
        return await self._follow(self._plans.canceled(job_id))

    async def retry(self, job_id: str) -> Job:
        return await self._follow(self._plans.retried(job_id))

    async def replace_credentials(
        self,
        job_id: str,
        credentials: Document | None = None,
        *,
        source_url: str | None = None,
        output_urls: Mapping[str, str] | None = None,
        watermark_urls: Mapping[str, str] | None = None,
    ) -> int:
        new = replacement(credentials, source_url, output_urls, watermark_urls)
        return await self._follow(self._plans.credentials_replaced(job_id, new))

    async def jobs(self, *, status: str | Sequence[str] = (), limit: int | None = None) -> AsyncIterator[Job]:
        cursor = None
        while True:
            page = await self._follow(self._plans.page(status, limit, cursor))
            for job in page.jobs:
                yield job
            cursor = page.cursor
            if cursor is None:
                return

    async def profiles(self) -> list[Document]:
        return await self._follow(self._plans.profiles())

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._http.base_url)!r})"

    async def _follow(self, plan: Plan[T]) -> T:
        try:
            call = next(plan)
            while True:
                call = plan.send(await self._send(call))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _send(self, call: ApiRequest) -> ApiResponse | Unreachable:
        await self._pause(call.after_s, call.outage)
        try:
            return answer_of(await self._http.request(**request(call)))
        except httpx.RequestError as error:
            return unreachable(error)

    async def _pause(self, seconds: float, outage: ClientError | None) -> None:
        if outage is not None and self._on_outage is not None:
            self._on_outage(outage)
        await sleep(seconds)
