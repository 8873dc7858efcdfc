"""Retry policy of the client: exponential backoff with jitter, and Retry-After."""

from euterpe.client.errors import ClientError

ATTEMPTS = 6
# All pauses together take about twelve seconds, which is enough for a service to restart.
_BASE_S, _CAP_S = 0.5, 8.0
# With a longer Retry-After, the caller has to decide.
_LONGEST_RETRY_AFTER_S = 60.0


def pause_before_retry(error: ClientError, *, tried: int, idempotent: bool, draw: float) -> float | None:
    """Return seconds, or None for no retry. `tried` is the number of requests sent; `draw` is in [0, 1)."""
    if tried >= ATTEMPTS or not error.retryable or not (idempotent or error.not_applied):
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= _LONGEST_RETRY_AFTER_S else None
    return min(_CAP_S, _BASE_S * 2.0 ** (tried - 1)) * (0.5 + draw / 2)
