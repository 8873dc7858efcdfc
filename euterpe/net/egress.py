"""HTTP requests to addresses that a requester chose: no redirects, no cookies, no proxies, no decoding.

Every status is a valid response: a 3xx or a 5xx raises no error. One `Egress` serves any number of threads.
"""

import logging
import math
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpcore

from euterpe.net.dialer import Dial, Dialer, IdleConnections, Resolve, system_dial, system_resolve
from euterpe.net.errors import EgressBadAnswer, EgressUnreachable
from euterpe.net.limits import Clock, OnWait, RequestLimits
from euterpe.net.pace import TransferPace
from euterpe.net.policy import EgressPolicy
from euterpe.net.target import Target

# Servers close idle connections after 5 s or more. We close them earlier, so that we send no request on a
# connection that the server is closing.
_KEEP_ALIVE_S = 4.0
IDLE_S = 30.0
# The framing of a chunked body can be larger than the body itself, but the framing must have a limit, too.
_FRAMING = 8
_SLACK = 64 * 1024

# At level DEBUG, httpcore would log response headers, which contain cookies, and tokens in a `Location`.
logging.getLogger("httpcore").setLevel(logging.INFO)


@dataclass(frozen=True)
class EgressResponse:
    status: int
    headers: Mapping[str, str]  # names in lower case; values of a repeated name are joined by ", "
    body: bytes
    truncated: bool  # the body was longer than `max_bytes`


@dataclass(frozen=True)
class OpenResponse:
    status: int
    headers: Mapping[str, str]
    chunks: Iterator[bytes]


class Egress:
    """A guarded HTTP client with a connection pool. Call `close` at the end, or use a `with` block.

    `resolve`, `dial` and `clock` replace the functions of the system in tests. `ssl_context` decides which
    certificates are trusted.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        resolve: Resolve = system_resolve,
        dial: Dial = system_dial,
        ssl_context: ssl.SSLContext | None = None,
        max_idle: int = 100,
        clock: Clock = time.monotonic,
    ) -> None:
        self._policy, self._resolve, self._dial, self._max_idle = policy, resolve, dial, max_idle
        self._clock = clock
        self._ssl_context = ssl_context or httpcore.default_ssl_context()
        self._dialer = Dialer(policy, resolve, dial, self._ssl_context)
        self._idle = IdleConnections(max_idle)
        self._derived: list[Egress] = []
        self._seconds_left: Callable[[], float] | None = None
        self.unbounded = self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._idle.close()
        for derived in self._derived:
            derived.close()

    def with_allowed(self, pairs: Iterable[str]) -> "Egress":
        """Return another egress that may also reach these `host:port` pairs.

        Closing this egress also closes the other egress. The other egress has its own idle connections,
        because this egress must not use a connection that only the wider policy of the other egress allows.
        """
        derived = Egress(
            self._policy.with_allowed(pairs),
            resolve=self._resolve,
            dial=self._dial,
            ssl_context=self._ssl_context,
            max_idle=self._max_idle,
            clock=self._clock,
        )
        self._derived.append(derived)
        return derived

    def bounded(self, seconds_left: Callable[[], float]) -> "Egress":
        """Return a copy of this egress whose requests last no longer than `seconds_left()`.

        `seconds_left` is called before each request, and may raise to prevent the request. The copy shares
        the idle connections. The attribute `unbounded` of the copy is the original egress, which can clean
        up after the time is over.
        """
        bounded = copy(self)
        bounded._seconds_left = seconds_left
        return bounded

    def _limits(
        self,
        target: Target,
        deadline_s: float,
        idle_s: float = math.inf,
        pace: TransferPace | None = None,
        on_wait: OnWait | None = None,
    ) -> RequestLimits:
        if self._seconds_left is not None:
            deadline_s = min(deadline_s, self._seconds_left())
        return RequestLimits(
            target.origin, deadline_s, idle_s=idle_s, pace=pace, clock=self._clock, on_wait=on_wait
        )

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes = b"",
        deadline_s: float,
        max_bytes: int,
    ) -> EgressResponse:
        """Return the response with at most `max_bytes` of its body.

        Raise if the request takes longer than `deadline_s`.
        """
        target = Target.parse(url)
        limits = self._limits(target, deadline_s)
        sized = body or method not in ("GET", "HEAD")
        length = {"content-length": str(len(body))} if sized else {}
        with self._exchange(method, target, {**headers, **length}, body, limits) as response:
            return _whole(response, max_bytes, limits)

    @contextmanager
    def open(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        deadline_s: float,
        idle_s: float = IDLE_S,
        pace: TransferPace | None = None,
        on_wait: OnWait | None = None,
    ) -> Iterator[OpenResponse]:
        """Yield the streamed response. Raise if the response is slower than `RequestLimits` or `pace` allows.

        `on_wait` is called during waits for the response, and may raise to end the request.
        """
        target = Target.parse(url)
        limits = self._limits(target, deadline_s, idle_s, pace, on_wait)
        with self._exchange(method, target, headers, b"", limits) as response:
            limits.head_read(math.inf)
            yield OpenResponse(response.status, _headers(response), _chunks(response, limits))

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        chunks: Iterable[bytes],
        size: int,
        deadline_s: float,
        idle_s: float = IDLE_S,
        max_bytes: int = _SLACK,
        pace: TransferPace | None = None,
    ) -> EgressResponse:
        """Stream a request body of exactly `size` bytes, and return the response."""
        target = Target.parse(url)
        limits = self._limits(target, deadline_s, idle_s, pace)
        length = {"content-length": str(size)}
        body = _sized(chunks, size, limits)
        with self._exchange(method, target, {**headers, **length}, body, limits) as response:
            return _whole(response, max_bytes, limits)

    @contextmanager
    def _exchange(
        self,
        method: str,
        target: Target,
        headers: Mapping[str, str],
        content: bytes | Iterable[bytes],
        limits: RequestLimits,
    ) -> Iterator[httpcore.Response]:
        own = {"host": target.host_header, "accept-encoding": "identity"}
        lines = {**{name.lower(): value for name, value in headers.items()}, **own}
        request = httpcore.Request(
            method,
            target.url,
            headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in lines.items()],
            content=content,
            # httpcore passes the limits to the stream.
            extensions={"timeout": {"read": limits, "write": limits}},
        )
        connection = self._idle.take(target.origin) or self._connect(target, limits)
        with _translate_errors(limits):
            response = connection.handle_request(request)
            try:
                yield response
            finally:
                response.close()
                if connection.is_idle():
                    self._idle.keep(target.origin, connection)

    def _connect(self, target: Target, limits: RequestLimits) -> httpcore.HTTP11Connection:
        with limits.connecting():
            stream = self._dialer.connect(target, limits)
        return httpcore.HTTP11Connection(target.url.origin, stream, keepalive_expiry=_KEEP_ALIVE_S)


@contextmanager
def _translate_errors(limits: RequestLimits) -> Iterator[None]:
    """Translate httpcore's errors into ours, because the messages of httpcore quote the response."""
    try:
        yield
    except httpcore.RemoteProtocolError:
        if limits.answer_ended:
            raise EgressUnreachable(
                limits.where, "closed the connection before its answer was complete"
            ) from None
        raise EgressBadAnswer(limits.where, "its answer is not HTTP") from None
    except httpcore.LocalProtocolError:
        raise ValueError("a header to be sent has characters that no header may have") from None


def _whole(response: httpcore.Response, max_bytes: int, limits: RequestLimits) -> EgressResponse:
    limits.head_read(max_bytes * _FRAMING + _SLACK)
    received = bytearray()
    for chunk in response.iter_stream():
        received += chunk
        if len(received) > max_bytes:
            break
    kept = bytes(received[:max_bytes])
    return EgressResponse(response.status, _headers(response), kept, truncated=len(received) > max_bytes)


def _chunks(response: httpcore.Response, limits: RequestLimits) -> Iterator[bytes]:
    with _translate_errors(limits):
        yield from response.iter_stream()


def _sized(chunks: Iterable[bytes], size: int, limits: RequestLimits) -> Iterator[bytes]:
    sent = 0
    for chunk in chunks:
        sent += len(chunk)
        if sent > size:
            break
        yield chunk
    if sent != size:
        raise ValueError(f"a body of {size} bytes was announced, and {sent} came")
    limits.turn()  # the next step begins: the wait for the response


def _headers(response: httpcore.Response) -> dict[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in response.headers:
        name, value = raw_name.decode("ascii").lower(), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
