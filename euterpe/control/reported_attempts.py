"""The reports of remote workers: heartbeats, statuses and ends, each with the token of its lease.

Reports that arrive together share a transaction. The token is verified in the thread that writes, because the
keys of the tokens are read from the database from time to time.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from euterpe.control.lease_tokens import LeaseTokens
from euterpe.domain.errors import EuterpeError
from euterpe.domain.leased_job import ProgressFigures
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.store.engine.group_commit import GroupCommit
from euterpe.store.queue.attempt_answers import (
    AttemptEnd,
    AttemptKey,
    Completion,
    EndAnswer,
    EndRefused,
    FailedAttempt,
    ReleasedAttempt,
    ReportRefusal,
)
from euterpe.store.queue.attempt_reports import Advanced, ReportedHeartbeat, ReportedStatus
from euterpe.store.queue.inbox import ExtendedLease
from euterpe.store.store import Store

T = TypeVar("T")
R = TypeVar("R")
# The shortest time between two transactions with heartbeats. 1,000 workers send about 70 heartbeats per
# second, so ten heartbeats share a transaction. Without this pause, a transaction wrote 1.7 heartbeats
# on average.
_BEAT_PAUSE_S = 0.15
# The shortest time between two transactions with ends of attempts. This pause is shorter than the pause for
# heartbeats, because the workers wait for the answer. With 100 ends per second, three share a transaction.
_END_PAUSE_S = 0.02


@dataclass(frozen=True)
class LeaseProof:
    """The proof of a lease, as a worker sends it. `principal` is the owner of the worker's API key."""

    principal: str
    job_id: str
    token: str = field(repr=False)
    attempt_id: str | None = None


class AttemptRefused(EuterpeError):
    """The attempt does not hold its job. `outcome` is set if the attempt has ended."""

    def __init__(self, reason: ReportRefusal, outcome: str | None = None) -> None:
        super().__init__(_SAYS[reason])
        self.reason, self.outcome = reason, outcome
        self.code = reason.value


_SAYS: Mapping[ReportRefusal, str] = {
    ReportRefusal.ATTEMPT_ENDED: "the attempt has ended in another way",
    ReportRefusal.LEASE_LOST: "the lease is lost: the job was requeued, or has ended",
    ReportRefusal.UNKNOWN_JOB: "there is no such job",
    ReportRefusal.PRUNED: "the job had finished, and was pruned",
}


class ReportedAttempts:
    """Record the reports of remote workers in group commits. Thread-safe.

    Methods that return a future do not wait for the database. Each future raises `InvalidLeaseToken`,
    `AttemptRefused`, `InvalidSpec` for an invalid report, `StoreUnavailable`, or an error of
    `euterpe.crypto.errors` if the lease keys cannot be read.
    """

    def __init__(
        self,
        store: Store,
        tokens: LeaseTokens,
        *,
        lease_ms: int,
        beat_pause_s: float = _BEAT_PAUSE_S,
        end_pause_s: float = _END_PAUSE_S,
    ) -> None:
        self._tokens, self._lease_ms = tokens, lease_ms
        reports, ends, wait_s = store.attempt_reports, store.attempt_ends, store.database.write_wait_s
        self._beats: GroupCommit[Callable[[], ReportedHeartbeat], ExtendedLease] = GroupCommit(
            partial(_write, reports.heartbeat), name="worker-beats", max_wait_s=wait_s, pause_s=beat_pause_s
        )
        self._steps: GroupCommit[Callable[[], ReportedStatus], Advanced] = GroupCommit(
            partial(_write, reports.advance), name="worker-steps", max_wait_s=wait_s
        )
        self._ends: GroupCommit[Callable[[], AttemptEnd], EndAnswer] = GroupCommit(
            partial(_write, ends.end),
            name="worker-ends",
            max_batch=ends.max_batch,
            max_wait_s=wait_s,
            pause_s=end_pause_s,
        )

    def start(self) -> None:
        for group in (self._beats, self._steps, self._ends):
            group.start()

    def stop(self) -> None:
        """Write the submitted reports, and then stop."""
        for group in (self._beats, self._steps, self._ends):
            group.stop()

    def key(self, proof: LeaseProof) -> AttemptKey:
        """Return the attempt of a token, or raise `InvalidLeaseToken`.

        This method may read the lease keys from the database.
        """
        claim = self._tokens.verify(
            proof.token, proof.principal, job_id=proof.job_id, attempt_id=proof.attempt_id
        )
        return AttemptKey(claim.job_id, claim.attempt_id, claim.claim_version)

    def heartbeat(
        self,
        proof: LeaseProof,
        *,
        progress: ProgressFigures | None,
        timings: Mapping[str, Any] | None,
        is_urgent: bool = False,
    ) -> "Future[ExtendedLease]":
        """Extend a lease. An urgent heartbeat does not wait for further heartbeats to share a transaction."""
        values = {"lease_ms": self._lease_ms, "progress": progress, "timings": timings}
        report = partial(self._made, ReportedHeartbeat, proof, values)
        return self._beats.submit(report, is_urgent=is_urgent)

    def advance(
        self, proof: LeaseProof, status: JobStatus, values: Mapping[str, object]
    ) -> "Future[Advanced]":
        report = {"lease_ms": self._lease_ms, "status": status, "values": values}
        return self._steps.submit(partial(self._made, ReportedStatus, proof, report))

    def complete(self, proof: LeaseProof, **fields: Any) -> "Future[EndAnswer]":
        """Record a success. `fields` are the fields of `Completion`."""
        return self._ends.submit(partial(self._made, Completion, proof, fields))

    def fail(
        self, proof: LeaseProof, error: JobError, *, timings: Mapping[str, Any] | None, stack: str | None
    ) -> "Future[EndAnswer]":
        fields = {"error": error, "timings": timings, "stack": stack}
        return self._ends.submit(partial(self._made, FailedAttempt, proof, fields))

    def release(
        self,
        proof: LeaseProof,
        reason: JobError | None,
        *,
        delay_ms: int | None,
        timings: Mapping[str, Any] | None,
    ) -> "Future[EndAnswer]":
        fields = {"reason": reason, "delay_ms": delay_ms, "timings": timings}
        return self._ends.submit(partial(self._made, ReleasedAttempt, proof, fields))

    def give_back(self, key: AttemptKey) -> "Future[EndAnswer]":
        """Release a claimed job, because the answer to the claim did not reach a worker."""
        return self._ends.submit(partial(ReleasedAttempt, key=key))

    def _made(self, kind: Callable[..., T], proof: LeaseProof, fields: Mapping[str, object]) -> T:
        return kind(key=self.key(proof), **fields)


def _write(
    write: Callable[[Sequence[T]], Sequence[R | EndRefused | ReportRefusal]], makes: Sequence[Callable[[], T]]
) -> list[R | Exception]:
    """Make and write the reports. Return an answer or an error for each report.

    Do not write a report that is invalid, or whose token cannot be verified. Otherwise its whole batch would
    fail, and the group commit would write the reports of the batch one by one. If the key provider does not
    answer, each of these writes would call the key provider again.
    """
    made = [_made_or_refused(make) for make in makes]
    good = [report for report in made if not isinstance(report, Exception)]
    answers = iter(write(good) if good else ())
    return [report if isinstance(report, Exception) else _answer(next(answers)) for report in made]


def _made_or_refused(make: Callable[[], T]) -> T | Exception:
    try:
        return make()
    except EuterpeError as error:
        return error


def _answer(answer: R | EndRefused | ReportRefusal) -> R | AttemptRefused:
    if isinstance(answer, EndRefused):
        return AttemptRefused(answer.reason, answer.outcome)
    return AttemptRefused(answer) if isinstance(answer, ReportRefusal) else answer
