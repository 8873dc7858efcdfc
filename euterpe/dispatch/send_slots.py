"""The places for sends under way, and how requesters share them.

A send counts against `concurrency` until its receiver has kept it waiting; then it holds one of the places
for
slow sends until it ends. Every send has such a place reserved from its start, so a place of `concurrency` is
free again after half a second at the latest, whatever the receivers do.

A requester may hold as many places as it leaves free (a dynamic threshold, as shared buffers of network
switches
have it): one busy requester gets half of them, two get a third each, and some are always left for a requester
that has none.
"""

from collections import Counter
from collections.abc import Iterable

from euterpe.dispatch.destination import Destination, Health, Send

# Slow sends for each one that counts against the concurrency.
_SLOW = 4


def max_concurrent_sends(concurrency: int) -> int:
    """Return the upper bound on concurrent sends, with slow ones that no longer count against
    `concurrency`."""
    return concurrency + _SLOW * concurrency


class SendCounts:
    """The sends under way, counted."""

    def __init__(self, sends: Iterable[Send]) -> None:
        self.by_requester, self.trials_by_requester = Counter[str](), Counter[str]()
        self.prompt = self.prompt_trials = self.all = self.trials = 0
        for send in sends:
            requester_id, _ = send.destination.key
            is_trial = send.destination.health is not Health.PROVEN
            self.all += 1
            self.trials += is_trial
            self.by_requester[requester_id] += 1
            self.trials_by_requester[requester_id] += is_trial
            if not send.is_detached:
                self.prompt += 1
                self.prompt_trials += is_trial


class SendSlots:
    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._all, self._trials = max_concurrent_sends(concurrency), _SLOW * concurrency
        # One is kept for receivers that answer, however many others there are to try.
        self._prompt_trials = max(1, concurrency - 1)

    def has_room_for(self, requester_id: str, load: SendCounts) -> bool:
        """Return whether this requester may start any send at all."""
        return load.by_requester[requester_id] < self._all - load.all

    def may_start(self, destination: Destination, load: SendCounts, now: float) -> bool:
        """Return whether a send to this destination may start, given that its requester may start one."""
        if destination.health is Health.PROVEN:
            most = 1 if destination.waits_for_slow_send(now) else self._concurrency
            return len(destination.sends) < most and load.prompt < self._concurrency
        requester_id, _ = destination.key
        if destination.sends or load.trials_by_requester[requester_id] >= self._trials - load.trials:
            return False
        # A suspect is likely to be silent again: it holds a place for slow sends from the start.
        return destination.health is Health.SUSPECT or (
            load.prompt < self._concurrency and load.prompt_trials < self._prompt_trials
        )
