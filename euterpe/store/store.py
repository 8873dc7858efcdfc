"""The facade of the store: an open database, with its operations as attributes."""

from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from euterpe.crypto.key_provider import KeyProvider
from euterpe.domain.canonical import callback_queries, hls_keys, request_hash, split_secrets
from euterpe.domain.job_limits import NO_LIMITS, JobLimits
from euterpe.domain.release_limits import ReleaseLimits
from euterpe.domain.retry import Backoff
from euterpe.domain.spec import JobSpec
from euterpe.domain.text import check_text
from euterpe.store.checks import WEEK_MS
from euterpe.store.engine.clock import Clock
from euterpe.store.engine.database import Database
from euterpe.store.engine.group_commit import GroupCommit
from euterpe.store.engine.ids import new_id
from euterpe.store.engine.migrations import require_current
from euterpe.store.engine.outage import OutageWatch
from euterpe.store.engine.write_wait import WRITE_WAIT_S
from euterpe.store.history.prune import Pruner
from euterpe.store.queue.attempt_ends import AttemptEnds
from euterpe.store.queue.attempt_reports import AttemptReports
from euterpe.store.queue.control import Control
from euterpe.store.queue.enqueue import Accepted, Enqueue, Key, NewJob
from euterpe.store.queue.failures import FailureWriter
from euterpe.store.queue.fairness.fair_shares import FairShares
from euterpe.store.queue.fairness.requester_limits import RequesterLimits
from euterpe.store.queue.held_jobs import HeldJobs
from euterpe.store.queue.inbox import Inbox
from euterpe.store.queue.job_transitions import JobTransitions
from euterpe.store.queue.jobs import Jobs
from euterpe.store.queue.outbox import Outbox
from euterpe.store.queue.progress import ProgressReports
from euterpe.store.queue.replay import Replay
from euterpe.store.secrets.callbacks import Callbacks
from euterpe.store.secrets.credentials import Credentials
from euterpe.store.secrets.hls_keys import HlsKeys
from euterpe.store.secrets.requesters import Requesters
from euterpe.store.secrets.rewrap import Rewrap
from euterpe.store.secrets.service_secrets import ServiceSecrets


class Store:
    """An open database and its operations. Thread-safe. Call `close` at the end, or use a `with` block."""

    def __init__(
        self,
        url: str,
        keys: KeyProvider,
        *,
        clock: Clock | None = None,
        backoff: Backoff | None = None,
        job_max_attempts: int = 3,
        outbox_max_attempts: int = 12,
        idempotency_ttl_ms: int = WEEK_MS,
        sweep_every_ms: int = 100,
        sweep_grace_ms: int = 0,
        outage_grace_ms: int = 0,
        outage: OutageWatch | None = None,
        release_limits: ReleaseLimits | None = None,
        write_wait_s: float = WRITE_WAIT_S,
        shares: Callable[[Database], FairShares] | None = None,
    ) -> None:
        """Open the database; raise SchemaMismatch unless all migrations of this program have been applied.

        A write waits at most `write_wait_s` for other writes. For `sweep_grace_ms` from now, and for
        `outage_grace_ms` after an outage of the database, no expired lease is revoked. During this time each
        running worker can revive its leases. `outage` detects outages of the database. `shares` builds the
        object that ranks jobs for claims. A benchmark passes a different function, to compare the fair order
        with another order.
        """
        self.database = Database(url, clock, write_wait_s=write_wait_s, outage=outage)
        try:
            require_current(self.database)
        except BaseException:
            self.database.close()
            raise
        self._job_max_attempts = job_max_attempts
        fair = FairShares(self.database, advance_every_ms=sweep_every_ms)
        transitions = JobTransitions(self.database, fair if shares is None else shares(self.database))
        backoff = backoff or Backoff()
        self.inbox = Inbox(
            self.database,
            transitions,
            backoff=backoff,
            sweep_every_ms=sweep_every_ms,
            sweep_grace_ms=sweep_grace_ms,
            outage_grace_ms=outage_grace_ms,
        )
        self.control = Control(self.database, transitions)
        self.outbox = Outbox(self.database, max_attempts=outbox_max_attempts, sweep_every_ms=sweep_every_ms)
        self.replay = Replay(self.database, self.outbox)
        self.enqueue = Enqueue(self.database, transitions.admission, idempotency_ttl_ms=idempotency_ttl_ms)
        self.progress = ProgressReports(self.database)
        self.attempt_reports = AttemptReports(self.database, transitions, self.progress)
        self.attempt_ends = AttemptEnds(
            self.database, transitions, FailureWriter(transitions, backoff), limits=release_limits
        )
        self.held_jobs = HeldJobs(self.database)
        self.jobs = Jobs(self.database)
        self.prune = Pruner(self.database, self.enqueue, transitions.admission)
        self.requesters = Requesters(self.database, keys)
        self.requester_limits = RequesterLimits(self.database)
        self.credentials = Credentials(self.database, keys)
        self.callbacks = Callbacks(self.database, keys)
        self.hls_keys = HlsKeys(self.database, keys)
        self.service_secrets = ServiceSecrets(self.database, keys)
        self.rewrap = Rewrap(self.database, keys)
        self.commits: GroupCommit[NewJob, Accepted] = GroupCommit(
            self.enqueue.many, name="enqueue", max_wait_s=write_wait_s
        )
        self.commits.start()
        self.inbox.start()

    def submit(
        self,
        spec: JobSpec,
        requester_id: str,
        *,
        idempotency_key: str | None = None,
        limits: JobLimits = NO_LIMITS,
    ) -> "Future[Accepted]":
        """Seal the job's secrets and enqueue the job, in a group commit with concurrent callers.

        The future gets its result after the commit. Do not call this in an event loop: sealing may block,
        because the key provider may be a remote service.
        """
        job = self.new_job(spec, requester_id, idempotency_key=idempotency_key, limits=limits)
        return self.commits.submit(job)

    def new_job(
        self,
        spec: JobSpec,
        requester_id: str,
        *,
        idempotency_key: str | None = None,
        source_ref: str | None = None,
        limits: JobLimits = NO_LIMITS,
    ) -> NewJob:
        """Return the job as it will be stored: with sealed secrets, and all other values in plain text.

        A bridge to a foreign queue passes the `source_ref` of a foreign job, so that the foreign job is
        enqueued only once.

        If `may_have_secrets(spec)` is true, this method can call the key provider and block. Raise
        `KeyProviderUnavailable` during an outage of the key provider.
        """
        key = None
        if idempotency_key is not None:
            check_text("idempotency_key", idempotency_key, "idempotency_key")
            key = Key(idempotency_key, request_hash(spec))
        job_id = new_id()
        public, secret = split_secrets(spec)
        public["timeout_seconds"] = limits.timeout_seconds(spec.timeout_seconds)
        public["priority"] = priority = limits.priority(spec.priority)
        return NewJob(
            job_id=job_id,
            requester_id=requester_id,
            spec=public,
            max_attempts=spec.max_attempts or limits.attempts(self._job_max_attempts),
            queue=spec.queue,
            priority=priority,
            group_id=spec.group.id if spec.group else None,
            group_limit=spec.group.limit if spec.group else 1,
            not_before=spec.not_before,
            external_id=spec.external_id,
            source_ref=source_ref,
            sealed=self.credentials.seal_first(job_id, requester_id, secret),
            sealed_callbacks=self.callbacks.seal_first(job_id, requester_id, callback_queries(spec)),
            sealed_hls_keys=self.hls_keys.seal_first(job_id, requester_id, hls_keys(spec)),
            key=key,
        )

    def close(self) -> None:
        self.commits.stop()
        self.inbox.close()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
