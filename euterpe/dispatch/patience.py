"""How long to leave a database alone that is away."""

import random

from euterpe.domain.retry import Backoff, RetryClass

_OUTAGE = Backoff(base_ms=200, cap_ms=5_000)


def outage_pause_s(failures: int) -> float:
    return _OUTAGE.delay_ms(failures, RetryClass.TRANSIENT, random.random()) / 1000  # noqa: S311  jitter
