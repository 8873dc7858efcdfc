"""The claims that wait at a claim desk, in the order of their arrival, and the ids of claims that are over.

A claim that was answered without jobs, or released, is over. The id of such a claim is remembered for a
while, because the network may deliver a copy of the request late. Jobs that were claimed for such a copy
would not be run by any worker.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from euterpe.store.queue.claims import ClaimRequest
from euterpe.store.queue.inbox import ClaimedJob


@dataclass(eq=False)
class Waiting:
    """A worker that waits for jobs. `jobs` gets the result, which is empty if the desk stops."""

    request: ClaimRequest
    jobs: "Future[Sequence[ClaimedJob]]" = field(default_factory=Future)
    is_new: bool = True  # True until the desk has looked for an earlier claim with the same id
    is_urgent: bool = False  # True: claim once, even if the queues seem empty, and answer with the result
    is_claiming: bool = False  # True while the desk claims for this worker
    is_given_up: bool = False  # True: the wait ends when the running claim ends, with or without jobs


class WaitingClaims:
    """The waiting workers of one desk. Not thread-safe: the caller must hold the desk's lock."""

    def __init__(self, *, clock: Callable[[], float], remembered_s: float) -> None:
        self._clock, self._remembered_s = clock, remembered_s
        self._waiting: dict[Waiting, None] = {}  # the waiting workers in the order of arrival
        self._copies: defaultdict[str, list[Waiting]] = defaultdict(list)  # by claim id
        self._over: dict[str, float] = {}  # the ids of claims that are over, with the time of each end

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: Waiting) -> bool:
        """Add a waiting worker. Return False, and add nothing, if its claim is over."""
        claim_id = waiting.request.claim_id
        if claim_id in self._over:
            return False
        self._waiting[waiting] = None
        if claim_id is not None:
            self._copies[claim_id].append(waiting)
        return True

    def remove(self, waiting: Waiting) -> bool:
        """Remove a waiting worker. Return False if the worker was not waiting."""
        if waiting not in self._waiting:
            return False
        del self._waiting[waiting]
        if (claim_id := waiting.request.claim_id) is not None:
            self._copies[claim_id].remove(waiting)
            if not self._copies[claim_id]:
                del self._copies[claim_id]
        return True

    def copies(self, claim_id: str | None) -> Sequence[Waiting]:
        """Return the waits with this claim id."""
        return () if claim_id is None else self._copies.get(claim_id, ())

    def busy(self, claim_id: str | None) -> list[Waiting]:
        """Return the waits with this claim id for which the desk claims now."""
        return [one for one in self.copies(claim_id) if one.is_claiming]

    def end(self, claim_id: str | None) -> list[Waiting]:
        """Record that a claim is over. Remove and return the waits with this claim id.

        Do not remove waits for which a claim is running.
        """
        if claim_id is None:
            return []
        self._remember(claim_id)
        ended = [one for one in self.copies(claim_id) if not one.is_claiming]
        for one in ended:
            self.remove(one)
        return ended

    def _remember(self, claim_id: str) -> None:
        now = self._clock()
        self._over.pop(claim_id, None)
        self._over[claim_id] = now
        while self._over[oldest := next(iter(self._over))] < now - self._remembered_s:
            del self._over[oldest]
