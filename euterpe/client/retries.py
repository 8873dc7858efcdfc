"""Whether a call that went wrong is made again, and when."""

from euterpe.client.errors import ClientError

ATTEMPTS = 6
# Together about twelve seconds: a service that restarts is back by then.
_BASE_S, _CAP_S = 0.5, 8.0
# Whoever is told to stay away for longer decides by himself.
_LONGEST_RETRY_AFTER_S = 60.0


def pause_before_retry(error: ClientError, *, tried: int, repeatable: bool, draw: float) -> float | None:
    """Seconds, or None for never. `tried` counts the calls made so far; `draw` is from [0, 1)."""
    if tried >= ATTEMPTS or not error.retryable or not (repeatable or error.undone):
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= _LONGEST_RETRY_AFTER_S else None
    return min(_CAP_S, _BASE_S * 2.0 ** (tried - 1)) * (0.5 + draw / 2)
