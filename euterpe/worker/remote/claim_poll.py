"""The claims of a remote worker: each claim is a long poll with a claim id. `wake` aborts a long poll."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, replace
from uuid import uuid4

import structlog

from euterpe.client import worker_answers, worker_calls
from euterpe.client.requests import ApiResponse
from euterpe.client.worker_answers import ClaimAnswer
from euterpe.crypto.errors import CannotDecrypt, KeyProviderUnavailable, UnknownFormat, UnknownKek
from euterpe.domain.errors import EuterpeError
from euterpe.domain.leased_job import Unavailable
from euterpe.runtime.retry import draw
from euterpe.worker.remote.held_lease import Clock
from euterpe.worker.remote.server_connection import ServerConnection, parsed, success
from euterpe.worker.remote.server_errors import ServerUnavailable

_log = structlog.get_logger(__name__)
# A claim runs at least this long before `wake` aborts it. When many slots become free at the same time, each
# wake-up would otherwise abort the claim that the previous wake-up caused.
_UNDISTURBED_S = 0.25
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
# A worker that is full, paused or stopping does not send a claim id again. After this time without a request,
# the claim id is given up.
_ABANDONED_S = 5.0
_RELEASE_S = 2.0  # the time limit of a release; a failed release is tried again, or the lease expires
_MOST_RELEASES = 16
# These errors mean that the server cannot use its keys. A claim treats them like an outage: the worker backs
# off.
_KEY_ERRORS = (KeyProviderUnavailable, UnknownKek, UnknownFormat, CannotDecrypt)


@dataclass(frozen=True)
class ClaimedAt:
    """The answer to a claim, with the times of the first request and of the answer by the worker's clock.

    If the claim was repeated, the leases may have begun with the first request.
    """

    answer: ClaimAnswer
    sent_at: float
    received_at: float
    was_repeated: bool


@dataclass(frozen=True)
class _Unanswered:
    """A claim id without an answer, the time when it was first sent, and the end of its last request."""

    claim_id: str
    sent_at: float
    ended_at: float
    was_repeated: bool = False


class ClaimPoll:
    """The claims of one worker. One thread claims; other threads may call `wake` and `release_abandoned`.

    A claim keeps its id until the server answers it. If only the answer was lost, the server returns the same
    jobs for the same id, so no attempt is lost.
    """

    def __init__(
        self,
        connection: ServerConnection,
        worker_id: str,
        queues: Sequence[str],
        *,
        clock: Clock,
        undisturbed_s: float = _UNDISTURBED_S,
        abandoned_s: float = _ABANDONED_S,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._connection, self._worker_id, self._queues = connection, worker_id, queues
        self._clock, self._undisturbed_s, self._abandoned_s = clock, undisturbed_s, abandoned_s
        self._new_id = new_id
        self._changed = threading.Condition()
        self._woken = False
        self._open: _Unanswered | None = None
        self._is_polling = False
        self._releases: deque[str] = deque(maxlen=_MOST_RELEASES)
        self._failures, self._not_before = 0, float("-inf")

    def claim(self, limit: int, wait_s: float) -> ClaimedAt | None:
        """Return the answer of the server, or None after `wake` or during a pause between claims."""
        if not self._keep_pause(wait_s):
            return None
        with self._changed:
            wait_s, self._woken = (0.0 if self._woken else wait_s), False
        claim = self._begin()
        try:
            result = self._poll(claim, limit, wait_s)
        except Unavailable as error:
            self._back_off(error)
            raise
        finally:
            self._end_poll()
        return result

    def wait(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._woken, seconds)
            self._woken = False

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def release_abandoned(self, *, abandoned_s: float | None = None) -> None:
        """Release the jobs of unanswered claims, except the claim that this worker still repeats."""
        limit_s = self._abandoned_s if abandoned_s is None else abandoned_s
        with self._changed:
            unanswered = self._open
            if unanswered and not self._is_polling and self._clock() >= unanswered.ended_at + limit_s:
                self._give_up(unanswered)
            claim_ids = list(self._releases)
        for claim_id in claim_ids:
            if not self._release(claim_id):
                return  # the server is unavailable, and each further try could wait for the whole time limit

    def _keep_pause(self, wait_s: float) -> bool:
        """Wait until the pause is over. Return False if this takes longer than `wait_s`, or after `wake`."""
        pause_s = self._not_before - self._clock()
        if pause_s <= 0:
            return True
        with self._changed:
            was_woken = self._changed.wait_for(lambda: self._woken, min(pause_s, wait_s))
            self._woken = False
        return not was_woken and pause_s <= wait_s

    def _begin(self) -> _Unanswered:
        with self._changed:
            now = self._clock()
            if self._open is None:
                self._open = _Unanswered(self._new_id(), now, now)
            else:
                self._open = replace(self._open, was_repeated=True)
            self._is_polling = True
            return self._open

    def _end_poll(self) -> None:
        with self._changed:
            self._is_polling = False
            if self._open is not None:
                self._open = replace(self._open, ended_at=self._clock())

    def _poll(self, claim: _Unanswered, limit: int, wait_s: float) -> ClaimedAt | None:
        call = worker_calls.claim(
            self._worker_id, self._queues, limit=limit, wait_s=wait_s, claim_id=claim.claim_id
        )
        response = self._await(self._connection.start(call))
        if response is None:
            return None
        received_at = self._clock()
        try:
            response = success(response)
        except _KEY_ERRORS as error:
            raise ServerUnavailable(str(error)) from None
        try:
            answer = parsed(response, worker_answers.claimed)
        except ServerUnavailable:
            # The server would repeat the same unreadable answer. So give up this claim id, which releases the
            # jobs.
            with self._changed:
                self._give_up(claim)
            raise
        if len(answer.jobs) > limit:
            # The server has repeated the answer to an earlier, aborted claim with this id. That claim asked
            # for more jobs than the worker now has free slots for.
            with self._changed:
                self._give_up(claim)
            self.release_abandoned()
            return None
        with self._changed:
            self._open = None
        self._failures, self._not_before = 0, received_at + min(answer.retry_after_s, _LONGEST_PAUSE_S)
        return ClaimedAt(answer, claim.sent_at, received_at, claim.was_repeated)

    def _await(self, future: "Future[ApiResponse]") -> ApiResponse | None:
        """Return the response. After `wake`, abort the request and return None."""
        wait([future], self._undisturbed_s)
        future.add_done_callback(lambda _: self._notify())
        with self._changed:
            self._changed.wait_for(lambda: self._woken or future.done())
            if not future.done():
                self._woken = False
        if not future.done():
            future.cancel()
            return None
        try:
            return future.result()
        except CancelledError:
            raise ServerUnavailable("the worker is stopping") from None

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _back_off(self, error: Unavailable) -> None:
        """Set the pause before the next claim.

        The pause is the longer of two times: a random part of a time that doubles with each failure, and the
        pause that the server asked for.
        """
        longest_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        asked_s = error.retry_after_s if isinstance(error, ServerUnavailable) else None
        pause_s = max(longest_s * draw(), min(asked_s or 0.0, _LONGEST_PAUSE_S))
        self._not_before = self._clock() + pause_s

    def _give_up(self, claim: _Unanswered) -> None:
        self._open = None
        self._releases.append(claim.claim_id)

    def _release(self, claim_id: str) -> bool:
        """Release the jobs of a claim. Return whether the server has answered."""
        call = replace(worker_calls.release_claim(self._worker_id, claim_id), timeout_s=_RELEASE_S)
        try:
            self._connection.ask(call, worker_answers.accepted)
        except Unavailable as error:
            _log.warning("claim_not_released", error=str(error))
            return False
        except EuterpeError as error:
            _log.warning("claim_not_released", error=str(error), code=error.code)
        with self._changed:
            if claim_id in self._releases:
                self._releases.remove(claim_id)
        return True
