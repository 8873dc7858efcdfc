"""The leases of a bridge to OmniQ, and their handover to the next bridge.

OmniQ cannot hand a job back. So a stopping bridge writes its leases to a hash, and another bridge adopts
them.
"""

from collections.abc import Callable
from typing import Any

from euterpe.bridges.adapter import ForeignLease
from euterpe.bridges.omniq_jobs import OmniqJob, OmniqLease, now_ms

_MOST_HEARTBEATS = 20  # for one job in one call: 20 heartbeats extend a lease of 0.1 s to 2 s
_RELEASED_TTL_S = 86_400
_LEASE_FIELDS = ("state", "lease_token", "lock_until_ms", "timeout_ms")
_REFUSALS = ("NOT_ACTIVE", "TOKEN_MISMATCH")


class OmniqLeases:
    """The leases of one bridge. `client` returns OmniQ's client. All calls block."""

    def __init__(self, redis: Any, client: Callable[[], Any], queue: str, base: str) -> None:
        self._redis, self._client, self._queue, self._base = redis, client, queue, base
        self._released_key = f"{base}:euterpe:released"  # leases that bridges have released, by job id
        self.held: set[OmniqLease] = set()
        self.unread: list[OmniqLease] = []  # leases of jobs that `take` has not returned yet

    def extended(self, lease: OmniqLease) -> ForeignLease:
        for _ in range(_MOST_HEARTBEATS):
            if not lease.needs_heartbeat(now_ms()):
                break
            try:
                lease.lock_until_ms = self._client().heartbeat(
                    queue=self._queue, job_id=lease.job_id, lease_token=lease.token
                )
            except RuntimeError as error:
                require_refusal(error)
                self.held.discard(lease)
                return ForeignLease.LOST
        return ForeignLease.HELD

    def hand_over(self, lease: OmniqLease) -> None:
        self.held.discard(lease)
        if self.extended(lease) is ForeignLease.HELD:
            pipeline = self._redis.pipeline(transaction=True)
            pipeline.hset(self._released_key, lease.job_id, lease.token)
            pipeline.expire(self._released_key, _RELEASED_TTL_S)
            pipeline.execute()

    def hand_over_unread(self) -> None:
        while self.unread:
            self.hand_over(self.unread[0])
            self.unread.pop(0)

    def adopt(self, limit: int) -> list[OmniqLease]:
        """Take over leases of stopped bridges. Return the leases for which this bridge has no room yet."""
        waiting = []
        for job_id, token in self._redis.hgetall(self._released_key).items():
            if self._has(token):  # adopted by an earlier call whose answer was lost
                self._redis.hdel(self._released_key, job_id)
            elif len(self.unread) >= limit:
                waiting += self._valid(job_id, token)
            else:
                for lease in self._valid(job_id, token):
                    # Keep the lease before HDEL removes it from the hash: if the answer of HDEL is lost, no
                    # other bridge can find the lease.
                    self.unread.append(lease)
                    if not self._redis.hdel(self._released_key, job_id):
                        self.unread.remove(lease)  # another bridge has taken it
        return waiting

    def _has(self, token: str) -> bool:
        return any(lease.token == token for lease in [*self.held, *self.unread])

    def _valid(self, job_id: str, token: str) -> list[OmniqLease]:
        """Return a list with the released lease, or an empty list if the lease is no longer valid."""
        values = self._redis.hmget(f"{self._base}:job:{job_id}", _LEASE_FIELDS)  # without the payload
        job = OmniqJob.of({name: value for name, value in zip(_LEASE_FIELDS, values, strict=True) if value})
        # A job that was published again keeps its old token while it waits, so check its state too.
        if job.state == "active" and job.lease_token == token:
            return [OmniqLease(job_id, token, job.lock_until_ms, job.timeout_ms)]
        self._redis.hdel(self._released_key, job_id)
        return []


def require_refusal(error: RuntimeError) -> None:
    """Raise the error unless its text shows that OmniQ refused a token: the client has no error types."""
    if not any(refusal in str(error) for refusal in _REFUSALS):
        raise error
