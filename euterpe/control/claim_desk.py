"""The long polls of remote workers: one thread claims for all waiting workers, in the order of their arrival.

A claim for a worker whose queues were empty a moment ago would find nothing. So the desk remembers which
queues were empty at the last claim, and forgets this at each wake-up and at each poll. The waiting workers
cost about one claim per poll interval, regardless of their number.

A worker whose answer was lost repeats its claim with the same id. So for each worker that has arrived since
the last claim, the next claim also searches the database for an earlier claim with the worker's claim id.
This search needs no separate transaction.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import structlog

from euterpe.control.waiting_claims import Waiting, WaitingClaims
from euterpe.domain.leased_job import Unavailable
from euterpe.runtime.background_loop import BackgroundLoop
from euterpe.runtime.retry import jittered
from euterpe.store.checks import MAX_BATCH
from euterpe.store.engine.wakeup import Listener
from euterpe.store.queue.claims import ClaimedJob, ClaimRequest, ClaimResult

_log = structlog.get_logger(__name__)

# `Inbox.claim_for`: it claims jobs for the requests in its first argument. For the requests in its second
# argument, it only searches for jobs that an earlier claim with the same claim id has taken.
ClaimFor = Callable[[Sequence[ClaimRequest], Sequence[ClaimRequest]], Sequence[ClaimResult]]


@dataclass(frozen=True, kw_only=True)
class DeskTimings:
    """Durations of a claim desk, in seconds."""

    poll_s: float = 1.0  # the pause between two claims without a wake-up, with a jitter of ±50 %
    # The shortest time between two wake-ups that lead to claims: at 100 jobs per second five jobs share a
    # claim. Each wake-up makes all API processes claim, and with SQLite every commit causes a wake-up.
    wakeup_pause_s: float = 0.05

    # The id of a finished claim is remembered for this time. A copy of the request that arrives later is
    # treated as a new claim.
    remembered_s: float = 60.0


DEFAULT_TIMINGS = DeskTimings()
# A claim that serves more workers needs more lookups of claim ids, but most claims find only one or two jobs.
# So the first claim serves only this number of workers. If a claim gave each of its workers all the jobs that
# the worker asked for, the next claim serves twice the number of workers. After any other claim, the next
# claim serves `_FEW` workers again.
_FEW = 8


class ClaimDesk:
    """The waiting workers of one process, and the thread that claims for them. Thread-safe.

    The desk closes the listener when it stops. One claim serves up to `most_at_once` workers, and takes up to
    `most_jobs` jobs. The transaction of a claim runs one query per queue: 64 workers with 100 queues each
    caused 6,400 queries. So the workers of one claim have at most `most_queues` queues in total. A worker
    with more queues is served alone.
    """

    def __init__(
        self,
        claim_for: ClaimFor,
        listener: Listener,
        *,
        most_at_once: int = 64,
        most_jobs: int = MAX_BATCH,
        most_queues: int = 64,
        most_waiting: int = 10_000,
        timings: DeskTimings = DEFAULT_TIMINGS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._claim_for, self._listener = claim_for, listener
        self._most_at_once, self._most_jobs, self._most_waiting = most_at_once, most_jobs, most_waiting
        self._at_once = min(_FEW, most_at_once)
        self._most_queues = most_queues
        self._timings, self._clock = timings, clock
        self._waiting = WaitingClaims(clock=clock, remembered_s=timings.remembered_s)
        self._empty: set[str] = set()  # the queues that were empty at the last claim
        self._polls_at = self._looks_from = float("-inf")
        self.is_failing = False  # True if the last claim failed
        self._lock = threading.Lock()
        self._loop = BackgroundLoop("euterpe-claim-desk", self._serve, on_error=self._pause_after)

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        """Answer all waiting workers, and then stop."""
        self.begin_stop()
        self._loop.stop()
        self._answer_all()
        self._listener.close()

    def begin_stop(self) -> None:
        """Answer all waiting workers. Refuse workers that arrive later."""
        self._loop.begin_stop()
        self._answer_all()
        self._listener.wake()

    def _answer_all(self) -> None:
        """Answer all waiting workers, except those for which the claim thread is running a claim.

        The answer has no jobs, or is an error.
        """
        with self._lock:
            left = [one for one in self._waiting if not one.is_claiming]
            for one in left:
                self._waiting.remove(one)
        for one in left:
            # An earlier claim with the same id may have taken jobs. The error makes the worker repeat its
            # claim.
            if one.is_new or one.is_urgent:
                one.jobs.set_exception(Unavailable("the service is stopping; try again"))
            else:
                one.jobs.set_result(())

    @property
    def is_stopping(self) -> bool:
        return self._loop.is_stopping

    def enter(self, request: ClaimRequest, *, waits: bool = True) -> Waiting:
        """Let a worker wait for jobs. Raise `Unavailable` if too many workers wait, or after `stop`.

        A worker that does not wait gets the result of one claim, which may be empty.
        """
        waiting = Waiting(request, is_new=request.claim_id is not None, is_urgent=not waits)
        with self._lock:
            if self._loop.is_stopping:
                raise Unavailable("the service is stopping; try again")
            if len(self._waiting) >= self._most_waiting:
                raise Unavailable(f"{self._most_waiting} workers wait for jobs already; try again")
            if not self._waiting.add(waiting):
                waiting.jobs.set_result(())
                return waiting
            is_ready = self._is_ready(waiting)
        if is_ready:
            self._listener.wake()
        return waiting

    def leave(self, waiting: Waiting) -> bool:
        """End a wait and return True. Return False if the caller must wait for the answer in `waiting.jobs`.

        False means that the answer exists already, that a claim for the worker is running, or that the desk
        must still search for an earlier claim with the same id. The answer may be empty.
        """
        with self._lock:
            claim_id = waiting.request.claim_id
            # A claim for a copy of this request may be running now. Without this check, the worker would not
            # get the jobs of that claim.
            is_claiming = waiting.is_claiming or self._waiting.busy(claim_id)
            if waiting.is_new or waiting.is_urgent or is_claiming:
                waiting.is_urgent = True
                return False
            has_left = self._waiting.remove(waiting)
            left = self._waiting.end(claim_id) if has_left else []
        for one in left:
            one.jobs.set_result(())
        return has_left

    def give_up(self, waiting: Waiting) -> None:
        """End the wait of a worker that repeats its claim later with the same claim id.

        Jobs that were already claimed for the worker are stored with this claim id, so the repeated claim
        gets them. If a claim for the worker is running, the wait ends when this claim ends, because
        `end_claim` must find the wait: a release of this claim id must include the jobs that the claim takes.
        """
        with self._lock:
            waiting.is_given_up = True
            if not waiting.is_claiming:
                self._waiting.remove(waiting)

    def end_claim(self, claim_id: str) -> Sequence[Waiting]:
        """End each wait with this claim id, unless its claim is running now.

        Return the waits whose claim is running now. Each of them ends later, with the result of its claim.
        The result may be empty.
        """
        with self._lock:
            ended, busy = self._waiting.end(claim_id), self._waiting.busy(claim_id)
            for one in busy:
                one.is_urgent = True
        for one in ended:
            one.jobs.set_result(())
        return busy

    # -- the claim thread

    def _serve(self) -> float:
        try:
            self._serve_once()
        finally:
            # `begin_stop` did not answer the workers whose claim was running then, so answer them now.
            if self._loop.is_stopping:
                self._answer_all()
        return 0.0

    def _serve_once(self) -> None:
        batch, unsure = self._next_batch()
        if batch:
            self._claim(batch, unsure)
        elif self._listener.wait(max(0.0, self._polls_at - self._clock())) or self._clock() >= self._polls_at:
            self._loop.sleep(max(0.0, self._looks_from - self._clock()))
            # Clear the wake-ups that arrived during the sleep: the next claim finds their jobs, too.
            self._listener.wait(0.0)
            self._forget_empty()

    def _is_ready(self, one: Waiting) -> bool:
        return one.is_urgent or not self._empty.issuperset(one.request.queues)

    def _next_batch(self) -> tuple[list[Waiting], list[Waiting]]:
        """Return the workers to claim for, and the workers that get only jobs of an earlier claim."""
        with self._lock:
            batch = self._bounded(islice(filter(self._is_ready, self._waiting), self._at_once))
            for one in batch:
                one.is_claiming = True
            # Leave out urgent workers: their next result is their answer, and this search claims no new jobs.
            unsure = (one for one in self._waiting if one.is_new and not (one.is_claiming or one.is_urgent))
            looked_for = list(islice(unsure, self._most_jobs)) if batch else []
            for one in looked_for:
                one.is_claiming = True
        return batch, looked_for

    def _bounded(self, ready: Iterable[Waiting]) -> list[Waiting]:
        """Return the first workers that have at most `most_queues` different queues in total.

        If the first worker alone has more queues, return only this worker.
        """
        batch: list[Waiting] = []
        queues = set[str]()
        for one in ready:
            queues.update(one.request.queues)
            if batch and len(queues) > self._most_queues:
                break
            batch.append(one)
        return batch

    def _claim(self, batch: Sequence[Waiting], unsure: Sequence[Waiting]) -> None:
        everyone = [*batch, *unsure]
        try:
            found = self._claim_for([one.request for one in batch], [one.request for one in unsure])
        except BaseException:
            # If only the answer of the database was lost, the claim was committed. So let the next claim
            # search for jobs that this claim has taken.
            with self._lock:
                for one in everyone:
                    one.is_new, one.is_claiming = one.request.claim_id is not None, False
                given_up = [one for one in everyone if one.is_given_up and self._waiting.remove(one)]
            for one in given_up:
                one.jobs.set_exception(Unavailable("the claim failed; repeat it"))
            raise
        self.is_failing = False
        self._remember_empty(batch, found[: len(batch)])
        with self._lock:
            for one, result in zip(everyone, found, strict=True):
                one.is_new = False
                if not (result.jobs or result.is_repetition or one.is_urgent or one.is_given_up):
                    one.is_claiming = False
        for one, result in zip(everyone, found, strict=True):
            if one.is_claiming:
                self._answer(one, result.jobs)
                one.is_claiming = False
        self._look_again_for(
            {one.request.claim_id for one, result in zip(everyone, found, strict=True) if result.jobs}
        )

    def _remember_empty(self, batch: Sequence[Waiting], found: Sequence[ClaimResult]) -> None:
        """Remember the queues that had fewer jobs than a worker asked for.

        Ignore claims that reached their limit, and repeated claims: they do not show whether a queue is
        empty.
        """
        short = [
            one.request
            for one, result in zip(batch, found, strict=True)
            if len(result.jobs) < one.request.limit and not result.is_repetition
        ]
        self._at_once = min(_FEW if short else 2 * self._at_once, self._most_at_once)
        if sum(len(result.jobs) for result in found) < self._most_jobs:
            self._empty.update(queue for request in short for queue in request.queues)

    def _look_again_for(self, claim_ids: Collection[str | None]) -> None:
        """Mark the waiting copies of these requests as urgent, so that the next claim answers them.

        A proxy or a worker can send a request twice. The copy can arrive too late for the batch that answers
        the first request.
        """
        with self._lock:
            for claim_id in claim_ids:
                for one in self._waiting.copies(claim_id):
                    one.is_urgent = True

    def _answer(self, waiting: Waiting, jobs: Sequence[ClaimedJob]) -> None:
        with self._lock:
            is_waiting = self._waiting.remove(waiting)  # False if the wait has ended meanwhile
            is_over = is_waiting and not (jobs or waiting.is_given_up)
            left = self._waiting.end(waiting.request.claim_id) if is_over else []
        if is_waiting:
            waiting.jobs.set_result(jobs)
        for one in left:
            one.jobs.set_result(())

    def _forget_empty(self) -> None:
        now = self._clock()
        self._polls_at, self._looks_from = (
            now + jittered(self._timings.poll_s),
            now + self._timings.wakeup_pause_s,
        )
        self._empty.clear()

    def _pause_after(self, error: Exception) -> float:
        """Log the error of a claim, and return the pause before the next claim. The workers keep waiting."""
        self.is_failing = True
        if isinstance(error, Unavailable):
            _log.warning("claim_failed", code=error.code, error=str(error))
        else:
            _log.error("claim_unexpected_error", exc_info=error)
        return jittered(self._timings.poll_s)
