"""Retry policy of the client: exponential backoff with jitter, and Retry-After."""

from dataclasses import dataclass

from euterpe.client.errors import ClientError
from euterpe.runtime.retry import draw


@dataclass(frozen=True)
class RetryPolicy:
    """The number of requests that a call may send, and the pauses between them.

    By default all pauses together take about twelve seconds, which is enough for a restart of the service.
    If `Retry-After` is longer than `longest_retry_after_s`, the call raises the error without a retry.
    """

    attempts: int = 6
    first_pause_s: float = 0.5
    longest_pause_s: float = 8.0
    longest_retry_after_s: float = 60.0

    def pause_s(
        self, error: ClientError, *, tried: int, idempotent: bool, drawn: float | None = None
    ) -> float | None:
        """Return the seconds before the next request, or None for no retry.

        `tried` is the number of requests sent. `drawn`, in [0, 1), replaces the random number.
        """
        if tried >= self.attempts or not error.retryable or not (idempotent or error.not_applied):
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.longest_retry_after_s else None
        longest = min(self.longest_pause_s, self.first_pause_s * 2.0 ** (tried - 1))
        return longest * (0.5 + (draw() if drawn is None else drawn) / 2)


DEFAULT_RETRY = RetryPolicy()
