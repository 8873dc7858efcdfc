"""The tasks that the tests send to child processes, and the messages that the tasks report."""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import Delivered, JobError, Redeliver
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import IN_PROGRESS, JobStatus, OutboxStatus
from euterpe.store.engine.wakeup import Topic
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.enqueue import NewJob
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.queue.outbox import ClaimedEvent, Delivery
from euterpe.store.queue.transition import Transition
from tests.service.store.processes.child_process import ParentChannel
from tests.store.attempts import fail_job, release_job
from tests.store.jobs import PATH, advance, new_job

Pair = tuple[str, int]  # the key and the claim_version of a claimed row


class Claimed(NamedTuple):
    pairs: Sequence[Pair]  # in the order of the claim


class Accepted(NamedTuple):
    """The store accepted a write that moved the row through these statuses."""

    pair: Pair
    statuses: Sequence[str]


class Refused(NamedTuple):
    pair: Pair


class Outage(NamedTuple):
    """The database could not be reached."""


class Idle(NamedTuple):
    """There was nothing to claim."""


@dataclass(frozen=True)
class WorkPlan:
    seed: int
    queues: Sequence[str] = ("default",)
    batch: int = 10
    lease_ms: int = 30_000
    # The share of claims that get a lease of 1 ms. The rows of these claims become stale, and the task tries
    # to write to these rows later.
    stall_rate: float = 0.0
    # At each step of a job, the probability that the task releases the job, and that it fails the job.
    release_rate: float = 0.0
    fail_rate: float = 0.0


def call_store(
    parent: ParentChannel, method: str, arguments: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    return attrgetter(method)(parent.store)(*arguments, **options)


def enqueue(parent: ParentChannel, batches: Sequence[Sequence[NewJob]]) -> int:
    for batch in batches:
        parent.store.enqueue.many(batch)
    return sum(len(batch) for batch in batches)


def enqueue_as_the_first_ends(parent: ParentChannel, job_pairs: Sequence[tuple[NewJob, NewJob]]) -> None:
    """Enqueue both jobs of each pair: the second one when a worker is about to finish the first one."""
    for first, second in job_pairs:
        parent.store.enqueue.many([first])
        while parent.store.jobs.get(first.job_id).status not in (JobStatus.UPLOADING, JobStatus.SUCCEEDED):
            pass
        parent.store.enqueue.many([second])


def work(parent: ParentChannel, plan: WorkPlan) -> None:
    """Claim and finish jobs, and report every claim and every write, until the test stops the task."""
    rng = random.Random(f"{plan.seed} {parent.name}")
    stale: list[ClaimedJob] = []
    with closing(parent.store.database.listen(Topic.INBOX)) as listener:
        while not parent.stop_requested():
            stalls = rng.random() < plan.stall_rate
            lease_ms = 1 if stalls else plan.lease_ms
            jobs = parent.store.inbox.claim(parent.name, plan.batch, queues=plan.queues, lease_ms=lease_ms)
            parent.report(Claimed([_claim(job) for job in jobs]) if jobs else Idle())
            if not jobs:
                listener.wait(0.05)
            elif stalls:
                stale += jobs
            else:
                _finish(parent, jobs, plan, rng)
            if stale and _write_stale(parent, stale[0], rng):
                stale.pop(0)
            stale = stale[1:] + stale[:1]
    for job in stale:  # all jobs are finished by now
        assert not _write_stale(parent, job, rng), "terminal-forever"


def work_through_outages(parent: ParentChannel, plan: WorkPlan) -> None:
    """Run `work`, and run `work` again after each outage, as a worker must."""
    with closing(parent.store.database.listen(Topic.INBOX)) as listener:
        while True:
            try:
                return work(parent, plan)
            except StoreUnavailable:
                parent.report(Outage())
                listener.wait(0.05)


def accept_until_killed(parent: ParentChannel, body: Mapping[str, Any]) -> None:
    """Submit jobs as the API does: requests share a commit and are answered after it."""
    spec = parse_spec(body)
    while True:
        futures = [parent.store.submit(spec, "r1") for _ in range(16)]
        for future in futures:
            parent.report(future.result().job_id)


def write_repeatedly(parent: ParentChannel, rounds: int, seconds: int) -> int:
    """Run rounds of three short transactions. Return the number of rounds."""
    end, done = time.monotonic() + seconds, 0
    while done < rounds or time.monotonic() < end:
        parent.store.enqueue.many([new_job()])
        for job in parent.store.inbox.claim(parent.name, 1):
            parent.store.inbox.advance([Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING)])
        parent.store.jobs.page(limit=1)
        done += 1
        if done % 100 == 0:
            parent.report(done)
    return done


def dispatch(parent: ParentChannel, plan: WorkPlan) -> None:
    """Claim and settle events, and report every claim and every write, until the test stops the task."""
    rng = random.Random(f"{plan.seed} {parent.name}")
    stale: list[ClaimedEvent] = []
    with closing(parent.store.database.listen(Topic.OUTBOX)) as listener:
        while not parent.stop_requested():
            stalls = rng.random() < plan.stall_rate
            lease_ms = 1 if stalls else plan.lease_ms
            events = parent.store.outbox.claim(parent.name, plan.batch, lease_ms=lease_ms)
            parent.report(Claimed([_claim(event) for event in events]) if events else Idle())
            if not events:
                listener.wait(0.05)
            elif stalls:
                stale += events
            else:
                held = parent.store.outbox.heartbeat(events, lease_ms=plan.lease_ms)
                _deliver(parent, [event for event in events if event.event_id in held], plan, rng)
            if stale and _deliver(parent, stale[:1], plan, rng):
                stale.pop(0)
            stale = stale[1:] + stale[:1]
    for event in stale:  # all events are delivered by now
        assert not _deliver(parent, [event], plan, rng), "fenced-writes"


def _deliver(
    parent: ParentChannel, events: Sequence[ClaimedEvent], plan: WorkPlan, rng: random.Random
) -> bool:
    """Settle the events. Return whether a write was accepted."""
    deliveries = [
        Delivery(event, Redeliver(1, "test") if rng.random() < plan.fail_rate else Delivered())
        for event in events
    ]
    held = parent.store.outbox.settle(deliveries)
    for delivery in deliveries:
        pair = _claim(delivery.event)
        delivered = isinstance(delivery.decision, Delivered)
        status = OutboxStatus.DELIVERED if delivered else OutboxStatus.PENDING
        parent.report(Accepted(pair, [status]) if delivery.event.event_id in held else Refused(pair))
    return bool(held)


def advance_every_step(
    parent: ParentChannel, jobs: Sequence[ClaimedJob]
) -> list[tuple[JobStatus, frozenset[str]]]:
    """Make every transition with claims that other processes use too.

    Return the jobs that each transition changed.
    """
    return [
        (target, parent.store.inbox.advance([Transition.advance(job, source, target) for job in jobs]))
        for source, target in pairwise(PATH)
    ]


def advance_jobs(parent: ParentChannel, jobs: Sequence[tuple[ClaimedJob, JobStatus]]) -> None:
    for job, status in jobs:
        assert advance(parent.store, job, until=status)


def claim_until(parent: ParentChannel, count: int, lease_ms: int) -> list[ClaimedJob]:
    """Claim until this process has `count` jobs, including jobs of processes whose leases have expired."""
    jobs: list[ClaimedJob] = []
    with closing(parent.store.database.listen(Topic.INBOX)) as listener:
        while len(jobs) < count:
            jobs += parent.store.inbox.claim(parent.name, count - len(jobs), lease_ms=lease_ms)
            listener.wait(0.05)
    return jobs


def claim_events_until(parent: ParentChannel, count: int, lease_ms: int) -> list[ClaimedEvent]:
    events: list[ClaimedEvent] = []
    with closing(parent.store.database.listen(Topic.OUTBOX)) as listener:
        while len(events) < count:
            events += parent.store.outbox.claim(parent.name, count - len(events), lease_ms=lease_ms)
            listener.wait(0.05)
    return events


def keep_alive(parent: ParentChannel, jobs: Sequence[ClaimedJob], lease_ms: int) -> None:
    """Send heartbeats from a thread, as a worker does, until all leases are lost."""

    def beat() -> bool:
        with parent.heartbeat_lock:
            return bool(parent.store.inbox.heartbeat(jobs, lease_ms=lease_ms).held)

    def beat_until_lost() -> None:
        while beat():
            pause.wait(lease_ms / 4_000)

    pause = threading.Event()
    parent.lease_keeper = threading.Thread(target=beat_until_lost)
    parent.lease_keeper.start()


def suspend_self(parent: ParentChannel) -> None:
    """Stop this process by SIGSTOP until the test resumes it. The lock prevents a stop during a heartbeat."""
    with parent.heartbeat_lock:
        os.kill(os.getpid(), signal.SIGSTOP)


def wait_for_lost_leases(parent: ParentChannel) -> None:
    """Wait until all leases are lost, which ends the heartbeats."""
    assert parent.lease_keeper is not None
    parent.lease_keeper.join()


def try_every_write(parent: ParentChannel, jobs: Sequence[tuple[ClaimedJob, JobStatus]]) -> list[str]:
    """Try every kind of write for jobs in these statuses. Return the writes that the store accepted."""
    return [
        f"{write} of a {status} job" for job, status in jobs for write in _try_writes(parent, job, status)
    ]


def _try_writes(parent: ParentChannel, job: ClaimedJob, status: JobStatus) -> Iterator[str]:
    inbox = parent.store.inbox
    if inbox.heartbeat([job]).held:
        yield "heartbeat"
    if inbox.advance([Transition.advance(job, status, PATH[PATH.index(status) + 1])]):
        yield "advance"
    if fail_job(parent.store, job, _error(status, RetryClass.TRANSIENT)) is not None:
        yield "failure"
    if fail_job(parent.store, job, _error(status, RetryClass.UNRECOVERABLE)) is not None:
        yield "dead letter"
    if release_job(parent.store, job):
        yield "release"


def _finish(parent: ParentChannel, jobs: Sequence[ClaimedJob], plan: WorkPlan, rng: random.Random) -> None:
    for source, target in pairwise(PATH):
        jobs = list(_release_or_fail_some(parent, jobs, source, plan, rng))
        held = parent.store.inbox.advance([Transition.advance(job, source, target) for job in jobs])
        for job in jobs:
            _report(parent, job, [target] if job.job_id in held else None)
        jobs = [job for job in jobs if job.job_id in held]
        if target is JobStatus.PROCESSING:
            held = parent.store.inbox.heartbeat(jobs, lease_ms=plan.lease_ms).held
            jobs = [job for job in jobs if job.job_id in held]


def _release_or_fail_some(
    parent: ParentChannel, jobs: Sequence[ClaimedJob], source: JobStatus, plan: WorkPlan, rng: random.Random
) -> Iterator[ClaimedJob]:
    """Release or fail some of the jobs. Yield the other jobs."""
    for job in jobs:
        draw = rng.random()
        if draw < plan.release_rate:
            _report(parent, job, [JobStatus.QUEUED] if release_job(parent.store, job) else None)
        elif draw < plan.release_rate + plan.fail_rate:
            _report(parent, job, _fail(parent, job, source))
        else:
            yield job


def _write_stale(parent: ParentChannel, job: ClaimedJob, rng: random.Random) -> bool:
    """Try a random write for a job whose lease has probably been lost. Return whether it succeeded."""
    accepted: Sequence[JobStatus] | None = None
    match rng.choice(("advance", "fail", "release", "heartbeat")):
        case "advance":
            # The transition has the correct source status, so only the fence can refuse it.
            status = JobStatus(parent.store.jobs.get(job.job_id).status)
            source = status if status in IN_PROGRESS else JobStatus.CLAIMED
            step = Transition.advance(job, source, PATH[PATH.index(source) + 1])
            accepted = [JobStatus(step.target)] if parent.store.inbox.advance([step]) else None
        case "fail":
            accepted = _fail(parent, job, JobStatus.CLAIMED)
        case "release":
            accepted = [JobStatus.QUEUED] if release_job(parent.store, job) else None
        case "heartbeat":
            parent.store.inbox.heartbeat([job], lease_ms=1)
    _report(parent, job, accepted)
    return accepted is not None


def _fail(parent: ParentChannel, job: ClaimedJob, phase: JobStatus) -> Sequence[JobStatus] | None:
    answer = fail_job(parent.store, job, _error(phase, RetryClass.TRANSIENT))
    if answer is None:
        return None
    return [JobStatus.FAILED, answer.status] if answer.status is JobStatus.DEAD_LETTER else [answer.status]


def _error(phase: JobStatus, retry_class: RetryClass) -> JobError:
    return JobError(ErrorCode.INTERNAL_ERROR, "on purpose", phase, retry_class)


def _report(parent: ParentChannel, job: ClaimedJob, statuses: Sequence[JobStatus] | None) -> None:
    parent.report(Refused(_claim(job)) if statuses is None else Accepted(_claim(job), statuses))


def _claim(row: ClaimedJob | ClaimedEvent) -> Pair:
    return row.holding.key, row.holding.claim_version
