"""The jobs and leases of OmniQ, as its hashes show them. This module does not use OmniQ's client."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from euterpe.bridges.adapter import ForeignFailure

HEARTBEAT_S = 0.25
_LEAST_LEASE_MS = 8 * HEARTBEAT_S * 1000
_MOST_ERROR_BYTES = 4096  # OmniQ cuts off the rest of a longer text
_DEFAULT_TIMEOUT_MS = 60_000  # of a job without a `timeout_ms`, as in OmniQ's scripts


@dataclass(frozen=True)
class OmniqJob:
    """A job as its hash shows it. OmniQ's own reader is not used: without an answer it returns None."""

    state: str
    payload: str
    attempt: int
    max_attempts: int
    timeout_ms: int
    created_ms: int
    last_error: str
    lease_token: str
    lock_until_ms: int

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> "OmniqJob":
        return cls(
            state=fields.get("state", ""),
            payload=fields.get("payload", ""),
            attempt=_number(fields.get("attempt")),
            max_attempts=max(1, _number(fields.get("max_attempts"))),
            timeout_ms=_number(fields.get("timeout_ms")) or _DEFAULT_TIMEOUT_MS,
            created_ms=_number(fields.get("created_ms")),
            last_error=fields.get("last_error", ""),
            lease_token=fields.get("lease_token", ""),
            lock_until_ms=_number(fields.get("lock_until_ms")),
        )


@dataclass(eq=False)
class OmniqLease:
    """A lease of a job. `timeout_ms`, which the producer has chosen, is the length of each extension."""

    job_id: str
    token: str
    lock_until_ms: int
    timeout_ms: int = 0

    def needs_heartbeat(self, now_ms: int) -> bool:
        """Return whether less than half of the lease is left, or less than eight times `HEARTBEAT_S`.

        A heartbeat adds `timeout_ms` to the end of the lease. With a heartbeat at every interval, the lease
        would grow, and the job of a killed bridge would stay locked for hours.
        """
        return self.lock_until_ms - now_ms < max(self.timeout_ms / 2, _LEAST_LEASE_MS)


def error_text(failure: ForeignFailure) -> str:
    """Return the text of a failure, with the mark at its end, and short enough that OmniQ does not cut it."""
    mark = f"\n{failure.mark}" if failure.mark else ""
    text = f"{failure.code}: {failure.message}".encode()
    return text[: _MOST_ERROR_BYTES - len(mark.encode())].decode(errors="ignore") + mark


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 18 else 0


def now_ms() -> int:
    return time.time_ns() // 1_000_000
