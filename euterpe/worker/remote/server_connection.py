"""The connection of a remote worker to its server: HTTP requests that another thread may abort.

httpx is used directly: the operator chose the address of the server, so the checks of `euterpe/net/` for
addresses of requesters are not needed. The requests run on an event loop in a separate thread, because a
running request of a synchronous client cannot be aborted.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

import httpx

from euterpe.client.connection import request
from euterpe.client.errors import UnexpectedAnswer
from euterpe.client.requests import ApiRequest, ApiResponse
from euterpe.client.worker_answers import refusal
from euterpe.worker.remote.server_errors import ServerUnavailable, error_of
from euterpe.worker.remote.server_settings import ServerSettings, new_client

# A claim has up to 100 jobs of at most 256 KiB.
_ANSWER_BYTES = 32 * 1024 * 1024
# The longest Retry-After for which `send` waits. If it is longer, `send` raises the error.
_LONGEST_PAUSE_S = 5.0
# If a request fails within this time, the server had probably closed an idle connection. Then the request is
# sent again.
_IDLE_FAILURE_S = 1.0
R = TypeVar("R")
_LOST = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


class ServerConnection:
    """A pool of connections to one server. Thread-safe.

    `connections` is the number of calls that may run at once.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        connections: int,
        answer_bytes: int = _ANSWER_BYTES,
        longest_pause_s: float = _LONGEST_PAUSE_S,
    ) -> None:
        self._host = httpx.URL(settings.url).netloc.decode("ascii")
        self._client = new_client(settings, connections)
        self._answer_bytes, self._longest_pause_s = answer_bytes, longest_pause_s
        self._closing, self._lock = threading.Event(), threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="euterpe-server", daemon=True)
        self._thread.start()

    def start(self, call: ApiRequest) -> "Future[ApiResponse]":
        """Send the request. Return the future of the answer, whatever its status is.

        The future raises `ServerUnavailable` if there is no answer. Cancel the future to abort the request.
        """
        with self._lock:  # a call that is scheduled after `_abort` would never end
            if not self._closing.is_set():
                return asyncio.run_coroutine_threadsafe(self._exchange(call), self._loop)
        refused: Future[ApiResponse] = Future()
        refused.set_exception(ServerUnavailable("the worker is stopping"))
        return refused

    def send(self, call: ApiRequest) -> ApiResponse:
        """Send the request. Return a successful answer, or raise an error of `server_errors`.

        If the server asks for a short pause, send the request a second time after this pause.
        """
        longest_s = min(self._longest_pause_s, call.timeout_s)
        try:
            return self._send_once(call)
        except ServerUnavailable as error:
            pause_s = error.retry_after_s
            if pause_s is None or pause_s > longest_s or self._closing.wait(pause_s):
                raise
        return self._send_once(call)

    def ask(self, call: ApiRequest, read: Callable[[ApiResponse], R]) -> R:
        """Send the request, and return its answer, parsed by `read`."""
        return parsed(self.send(call), read)

    def close(self) -> None:
        """Abort all calls, and close the connections."""
        with self._lock:
            if self._closing.is_set():
                return
            self._closing.set()
        asyncio.run_coroutine_threadsafe(self._abort(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _send_once(self, call: ApiRequest) -> ApiResponse:
        try:
            return success(self.start(call).result())
        except CancelledError:
            raise ServerUnavailable("the worker is stopping") from None

    async def _exchange(self, call: ApiRequest) -> ApiResponse:
        began = time.monotonic()
        try:
            async with asyncio.timeout(call.timeout_s):
                try:
                    return await self._request(call)
                except _LOST:
                    if time.monotonic() - began > _IDLE_FAILURE_S:
                        raise
                    return await self._request(call)
        except (httpx.RequestError, OSError) as error:  # asyncio.timeout raises TimeoutError, an OSError
            reason = str(error) or type(error).__name__  # the text of a timeout error is empty
            raise ServerUnavailable(f"no answer from {self._host}: {reason}") from None

    async def _request(self, call: ApiRequest) -> ApiResponse:
        body = bytearray()
        async with self._client.stream(**request(call)) as response:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > self._answer_bytes:
                    raise ServerUnavailable(f"the answer of {self._host} is too long")
            return ApiResponse(response.status_code, response.headers, bytes(body))

    async def _abort(self) -> None:
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._client.aclose()


def success(answer: ApiResponse) -> ApiResponse:
    """Return the answer if it is successful. Otherwise raise the error that it reports."""
    refused = refusal(answer)
    if refused is not None:
        raise error_of(refused)
    return answer


def parsed(answer: ApiResponse, read: Callable[[ApiResponse], R]) -> R:
    """Return the answer, parsed by `read`.

    Raise `ServerUnavailable` for an answer that `read` refuses: another program, such as a proxy, has sent
    it.
    """
    try:
        return read(answer)
    except UnexpectedAnswer as error:
        raise ServerUnavailable(str(error)) from None
