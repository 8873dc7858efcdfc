"""Concurrency limits for webhook sends, shared between requesters by a dynamic threshold.

A send counts against `concurrency` until its receiver counts as slow. From then on, the send holds a slot for
slow sends until the send ends. At its start, each send also reserves one of the slots for slow sends. A send
that has no answer after at most half a second moves to its reserved slot. So each slot of `concurrency`
becomes free even if no receiver answers.

A requester may start a send while it holds fewer slots than there are free slots. This is a dynamic
threshold, as in shared buffers of network switches: one busy requester gets half of the slots, two busy
requesters get a third each, and some slots are always free for a requester that holds none.
"""

from collections import Counter
from collections.abc import Iterable

from euterpe.dispatch.destination import Destination, Health, Send

# The number of slots for slow sends per slot of `concurrency`.
_SLOW_FACTOR = 4


def max_concurrent_sends(concurrency: int) -> int:
    """Return the maximum number of concurrent sends: `concurrency` plus the slots for slow sends."""
    return concurrency + _SLOW_FACTOR * concurrency


class SendCounts:
    """The number of sends under way, in total and per requester."""

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
    """The rules that decide which sends may start, given the sends under way."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._all, self._trials = max_concurrent_sends(concurrency), _SLOW_FACTOR * concurrency
        # Trials, which are sends to unproven receivers, leave one slot free for receivers that answer.
        self._prompt_trials = max(1, concurrency - 1)

    def has_room_for(self, requester_id: str, load: SendCounts) -> bool:
        """Return whether this requester may start a send to any destination."""
        return load.by_requester[requester_id] < self._all - load.all

    def may_start(self, destination: Destination, load: SendCounts, now: float) -> bool:
        """Return whether a send to this destination may start. The caller has checked `has_room_for`."""
        if destination.health is Health.PROVEN:
            most = 1 if destination.waits_for_slow_send(now) else self._concurrency
            return len(destination.sends) < most and load.prompt < self._concurrency
        requester_id, _ = destination.key
        if destination.sends or load.trials_by_requester[requester_id] >= self._trials - load.trials:
            return False
        # A suspect receiver will probably not answer, so its send uses only a slow slot from the start.
        return destination.health is Health.SUSPECT or (
            load.prompt < self._concurrency and load.prompt_trials < self._prompt_trials
        )
