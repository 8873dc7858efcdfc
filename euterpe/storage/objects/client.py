"""An HTTP client for one bucket: signs requests and sends them through the guarded egress.

The egress follows no redirect, uses no proxy, reads no environment variable, and checks each address before
it connects. Egress errors become storage errors.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from euterpe.domain.credentials import Side
from euterpe.net.egress import Egress, EgressResponse, OpenResponse
from euterpe.net.limits import OnWait
from euterpe.net.pace import TransferPace
from euterpe.net.target import Target
from euterpe.storage.objects.request import ObjectRequest, Signer, encode_path
from euterpe.storage.responses import REASON_BYTES, refusal, storage_chunks, storage_errors
from euterpe.storage.transfer import DEFAULT_RETRY, TransferRetry

# A download is one request, so its time limit is high. The minimum pace and the job's timeout limit the
# download too.
_DOWNLOAD_S = 7 * 24 * 3600.0
# The time limit for one part of 16 MiB, in addition to the minimum pace.
_PART_S = 600.0
# S3 takes minutes to complete the multipart upload of a large object.
_CALL_S = 300.0
_ANSWER_BYTES = 64 * 1024
_SLICE = 256 * 1024


def _utc() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class ObjectClient:
    """A client for one bucket or container. `base` is the URL of the store without a trailing slash."""

    egress: Egress
    base: str
    bucket: str
    signer: Signer
    side: Side
    idle_s: float
    retry: TransferRetry = DEFAULT_RETRY
    now: Callable[[], datetime] = _utc

    @property
    def unbounded(self) -> "ObjectClient":
        """Return a client without the attempt's time limit, for clean-up after a timeout."""
        return replace(self, egress=self.egress.unbounded)

    def path(self, key: str) -> str:
        return f"{self._base_path}/{encode_path(self.bucket)}/{encode_path(key)}"

    @property
    def _base_path(self) -> str:
        return "/".join(("", *self.base.split("/")[3:])) if self.base.count("/") > 2 else ""

    @contextmanager
    def open(
        self,
        where: str,
        request: ObjectRequest,
        pace: TransferPace | None,
        on_wait: OnWait,
        *,
        idle_s: float | None = None,
    ) -> Iterator[OpenResponse]:
        """Yield the response, whatever its status. The body is streamed."""
        url, signed = self._signed(request)
        with ExitStack() as stack:
            with storage_errors(where, self.side):
                answer = stack.enter_context(
                    self.egress.open(
                        request.method,
                        url,
                        headers=signed.headers,
                        deadline_s=_DOWNLOAD_S,
                        idle_s=idle_s or self.idle_s,
                        pace=pace,
                        on_wait=on_wait,
                    )
                )
            yield replace(answer, chunks=storage_chunks(where, answer.chunks))

    def ask(self, where: str, request: ObjectRequest, deadline_s: float = _CALL_S) -> EgressResponse:
        """Return the response to a short call, whatever its status."""
        url, signed = self._signed(request)
        with storage_errors(where, self.side):
            return self.egress.request(
                request.method,
                url,
                headers=signed.headers,
                body=request.body,
                deadline_s=deadline_s,
                max_bytes=_ANSWER_BYTES,
            )

    def send(
        self, where: str, request: ObjectRequest, pace: TransferPace, on_slice: Callable[[], None]
    ) -> EgressResponse:
        """Send a body and return the response, whatever its status.

        `on_slice` is called before each slice, and may raise to end the request.
        """
        url, signed = self._signed(request)

        def slices() -> Iterator[bytes]:
            for start in range(0, len(request.body), _SLICE):
                on_slice()
                yield request.body[start : start + _SLICE]

        with storage_errors(where, self.side):
            answer = self.egress.send(
                request.method,
                url,
                headers=signed.headers,
                chunks=slices(),
                size=len(request.body),
                deadline_s=_PART_S,
                idle_s=self.idle_s,
                max_bytes=_ANSWER_BYTES,
                pace=pace,
            )
        pace.add_request()
        return answer

    def succeeded(self, where: str, answer: EgressResponse) -> EgressResponse:
        """Return `answer` if its status is 2xx, else raise the `StorageError` for the status."""
        if 200 <= answer.status < 300:
            return answer
        raise refusal(where, self.side, answer.status, answer.body[:REASON_BYTES])

    def _signed(self, request: ObjectRequest) -> tuple[str, ObjectRequest]:
        with storage_errors(self.base, self.side):
            host = Target.parse(self.base).host_header
        signed = self.signer.sign(request, host, self.now())
        origin = "/".join(self.base.split("/")[:3])
        return f"{origin}{signed.target}", signed
