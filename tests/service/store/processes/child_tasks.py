"""What the processes of these tests are told to do. Every act runs in the child, at its desk."""

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

from euterpe.domain.retry import DeadLetter, Delivered, JobError, Redeliver, Requeue, RetryClass
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import IN_PROGRESS, JobStatus, OutboxStatus
from euterpe.store.engine.wakeup import Topic
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.enqueue import NewJob
from euterpe.store.queue.inbox import Advance, ClaimedJob
from euterpe.store.queue.outbox import ClaimedEvent, Delivery
from tests.service.store.processes.child_process import ParentChannel
from tests.store.jobs import PATH, advance, new_job

Pair = tuple[str, int]  # a row, and the claim_version that somebody holds it with


class Claimed(NamedTuple):
    pairs: Sequence[Pair]  # in the order of the claim


class Accepted(NamedTuple):
    """The store took this write: the row went to these statuses, one after the other."""

    pair: Pair
    statuses: Sequence[str]


class Refused(NamedTuple):
    pair: Pair


class Away(NamedTuple):
    """The database could not be reached."""


class Idle(NamedTuple):
    """There was nothing to claim."""


@dataclass(frozen=True)
class WorkPlan:
    seed: int
    queues: Sequence[str] = ("default",)
    batch: int = 10
    lease_ms: int = 30_000
    # How often a batch is claimed with no time to work on it, and remembered when it is somebody else's.
    looks_away: float = 0.0
    # How often a job is handed back, or fails.
    releases: float = 0.0
    fails: float = 0.0


def do(parent: ParentChannel, what: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    return attrgetter(what)(parent.store)(*arguments, **options)


def enqueue(parent: ParentChannel, batches: Sequence[Sequence[NewJob]]) -> int:
    for batch in batches:
        parent.store.enqueue.many(batch)
    return sum(len(batch) for batch in batches)


def enqueue_as_the_first_ends(parent: ParentChannel, couples: Sequence[tuple[NewJob, NewJob]]) -> None:
    """Of each couple the second, when a worker is about to finish the first."""
    for first, second in couples:
        parent.store.enqueue.many([first])
        while parent.store.jobs.get(first.job_id)["status"] not in (JobStatus.UPLOADING, JobStatus.SUCCEEDED):
            pass
        parent.store.enqueue.many([second])


def work(parent: ParentChannel, plan: WorkPlan) -> None:
    """Claims and finishes jobs, and reports every claim and every write, until told to stop."""
    rng = random.Random(f"{plan.seed} {parent.name}")
    late: list[ClaimedJob] = []
    with closing(parent.store.database.listen(Topic.INBOX)) as listener:
        while not parent.was_told_to_stop():
            looks_away = rng.random() < plan.looks_away
            lease_ms = 1 if looks_away else plan.lease_ms
            jobs = parent.store.inbox.claim(parent.name, plan.batch, queues=plan.queues, lease_ms=lease_ms)
            parent.report(Claimed([_claim(job) for job in jobs]) if jobs else Idle())
            if not jobs:
                listener.wait(0.05)
            elif looks_away:
                late += jobs
            else:
                _walk(parent, jobs, plan, rng)
            if late and _write_late(parent, late[0], rng):
                late.pop(0)
            late = late[1:] + late[:1]
    for job in late:  # all is over by now
        assert not _write_late(parent, job, rng), "terminal-forever"


def work_through_outages(parent: ParentChannel, plan: WorkPlan) -> None:
    """As a worker must: to it an outage is one more reason to wait."""
    with closing(parent.store.database.listen(Topic.INBOX)) as listener:
        while True:
            try:
                return work(parent, plan)
            except StoreUnavailable:
                parent.report(Away())
                listener.wait(0.05)


def accept_until_killed(parent: ParentChannel, body: Mapping[str, Any]) -> None:
    """As the API does: many requests share a commit, and each is answered after it."""
    spec = parse_spec(body)
    while True:
        futures = [parent.store.submit(spec, "r1") for _ in range(16)]
        for future in futures:
            parent.report(future.result().job_id)


def hammer(parent: ParentChannel, rounds: int, seconds: int) -> int:
    """Short transactions, one after the other; returns how many rounds of three there were."""
    end, done = time.monotonic() + seconds, 0
    while done < rounds or time.monotonic() < end:
        parent.store.enqueue.many([new_job()])
        for job in parent.store.inbox.claim(parent.name, 1):
            parent.store.inbox.advance([Advance(job, JobStatus.CLAIMED, JobStatus.FETCHING)])
        parent.store.jobs.page(limit=1)
        done += 1
        if done % 100 == 0:
            parent.report(done)
    return done


def dispatch(parent: ParentChannel, plan: WorkPlan) -> None:
    """The same for the outbox: claims and settles events."""
    rng = random.Random(f"{plan.seed} {parent.name}")
    late: list[ClaimedEvent] = []
    with closing(parent.store.database.listen(Topic.OUTBOX)) as listener:
        while not parent.was_told_to_stop():
            looks_away = rng.random() < plan.looks_away
            lease_ms = 1 if looks_away else plan.lease_ms
            events = parent.store.outbox.claim(parent.name, plan.batch, lease_ms=lease_ms)
            parent.report(Claimed([_claim(event) for event in events]) if events else Idle())
            if not events:
                listener.wait(0.05)
            elif looks_away:
                late += events
            else:
                held = parent.store.outbox.heartbeat(events, lease_ms=plan.lease_ms)
                _deliver(parent, [event for event in events if event.event_id in held], plan, rng)
            if late and _deliver(parent, late[:1], plan, rng):
                late.pop(0)
            late = late[1:] + late[:1]
    for event in late:  # all is over by now
        assert not _deliver(parent, [event], plan, rng), "fenced-writes"


def _deliver(
    parent: ParentChannel, events: Sequence[ClaimedEvent], plan: WorkPlan, rng: random.Random
) -> bool:
    """Whether any of it was taken."""
    deliveries = [
        Delivery(event, Redeliver(1, "test") if rng.random() < plan.fails else Delivered())
        for event in events
    ]
    held = parent.store.outbox.settle(deliveries)
    for delivery in deliveries:
        pair = _claim(delivery.event)
        delivered = isinstance(delivery.decision, Delivered)
        status = OutboxStatus.DELIVERED if delivered else OutboxStatus.PENDING
        parent.report(Accepted(pair, [status]) if delivery.event.event_id in held else Refused(pair))
    return bool(held)


def take_every_step(
    parent: ParentChannel, jobs: Sequence[ClaimedJob]
) -> list[tuple[JobStatus, frozenset[str]]]:
    """With claims that other processes hold as well; which jobs each step held for."""
    return [
        (target, parent.store.inbox.advance([Advance(job, source, target) for job in jobs]))
        for source, target in pairwise(PATH)
    ]


def walk(parent: ParentChannel, jobs: Sequence[tuple[ClaimedJob, JobStatus]]) -> None:
    for job, status in jobs:
        assert advance(parent.store, job, until=status)


def claim_until(parent: ParentChannel, count: int, lease_ms: int) -> list[ClaimedJob]:
    """Claims until it has so many; those that others hold must come free by themselves."""
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
    """Beats from a thread, as a worker does beside its work, until nothing is held any more."""

    def beat() -> bool:
        with parent.beating:
            return bool(parent.store.inbox.heartbeat(jobs, lease_ms=lease_ms).held)

    def live() -> None:
        while beat():
            pause.wait(lease_ms / 4_000)

    pause = threading.Event()
    parent.lease_keeper = threading.Thread(target=live)
    parent.lease_keeper.start()


def fall_asleep(parent: ParentChannel) -> None:
    """All of the process, between two beats: never inside a transaction. Until the test thaws it."""
    with parent.beating:
        os.kill(os.getpid(), signal.SIGSTOP)


def wait_until_told(parent: ParentChannel) -> None:
    """Until the heart has stopped: its last beat found that nothing is held."""
    assert parent.lease_keeper is not None
    parent.lease_keeper.join()


def write_all_ways(parent: ParentChannel, jobs: Sequence[tuple[ClaimedJob, JobStatus]]) -> list[str]:
    """Every write that there is, for jobs in these states; what the store took of them."""
    return [
        f"{write} of a job that was {status}" for job, status in jobs for write in _taken(parent, job, status)
    ]


def _taken(parent: ParentChannel, job: ClaimedJob, status: JobStatus) -> Iterator[str]:
    inbox = parent.store.inbox
    if inbox.heartbeat([job]).held:
        yield "heartbeat"
    if inbox.advance([Advance(job, status, PATH[PATH.index(status) + 1])]):
        yield "advance"
    if inbox.fail(job, _error(status, RetryClass.TRANSIENT)) is not None:
        yield "failure"
    if inbox.fail(job, _error(status, RetryClass.UNRECOVERABLE)) is not None:
        yield "burial"
    if inbox.release(job):
        yield "release"


def _walk(parent: ParentChannel, jobs: Sequence[ClaimedJob], plan: WorkPlan, rng: random.Random) -> None:
    for source, target in pairwise(PATH):
        jobs = list(_keep(parent, jobs, source, plan, rng))
        held = parent.store.inbox.advance([Advance(job, source, target) for job in jobs])
        for job in jobs:
            _report(parent, job, [target] if job.job_id in held else None)
        jobs = [job for job in jobs if job.job_id in held]
        if target is JobStatus.PROCESSING:
            held = parent.store.inbox.heartbeat(jobs, lease_ms=plan.lease_ms).held
            jobs = [job for job in jobs if job.job_id in held]


def _keep(
    parent: ParentChannel, jobs: Sequence[ClaimedJob], source: JobStatus, plan: WorkPlan, rng: random.Random
) -> Iterator[ClaimedJob]:
    """The jobs that go on; the others are released or fail here."""
    for job in jobs:
        draw = rng.random()
        if draw < plan.releases:
            _report(parent, job, [JobStatus.QUEUED] if parent.store.inbox.release(job) else None)
        elif draw < plan.releases + plan.fails:
            _report(parent, job, _fail(parent, job, source))
        else:
            yield job


def _write_late(parent: ParentChannel, job: ClaimedJob, rng: random.Random) -> bool:
    """A write of a worker that has long lost the job, in all likelihood; whether it was taken."""
    taken: Sequence[JobStatus] | None = None
    match rng.choice(("advance", "fail", "release", "heartbeat")):
        case "advance":
            # Of the status that it has now: the fence alone can tell that it is not ours.
            status = JobStatus(parent.store.jobs.get(job.job_id)["status"])
            source = status if status in IN_PROGRESS else JobStatus.CLAIMED
            step = Advance(job, source, PATH[PATH.index(source) + 1])
            taken = [step.target] if parent.store.inbox.advance([step]) else None
        case "fail":
            taken = _fail(parent, job, JobStatus.CLAIMED)
        case "release":
            taken = [JobStatus.QUEUED] if parent.store.inbox.release(job) else None
        case "heartbeat":
            parent.store.inbox.heartbeat([job], lease_ms=1)
    _report(parent, job, taken)
    return taken is not None


def _fail(parent: ParentChannel, job: ClaimedJob, phase: JobStatus) -> Sequence[JobStatus] | None:
    match parent.store.inbox.fail(job, _error(phase, RetryClass.TRANSIENT)):
        case None:
            return None
        case Requeue():
            return [JobStatus.QUEUED]
        case DeadLetter():
            return [JobStatus.FAILED, JobStatus.DEAD_LETTER]
        case _:
            return [JobStatus.FAILED]


def _error(phase: JobStatus, retry_class: RetryClass) -> JobError:
    return JobError("test", "on purpose", phase, retry_class)


def _report(parent: ParentChannel, job: ClaimedJob, statuses: Sequence[JobStatus] | None) -> None:
    parent.report(Refused(_claim(job)) if statuses is None else Accepted(_claim(job), statuses))


def _claim(row: ClaimedJob | ClaimedEvent) -> Pair:
    return row.holding.key, row.holding.claim_version
