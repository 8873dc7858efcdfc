"""The pause of all sends while the key provider is unavailable."""

from collections.abc import Callable

from euterpe.runtime.retry import jittered


class KeysPause:
    """The state of an outage of the key provider: pauses, with one trial send after each pause.

    A pause stops the sends of all requesters, because every send needs a webhook secret. The sends stop even
    if only one of two providers is unavailable, or if the secrets of a requester are still cached. With
    pauses per requester, each requester's events would be claimed and postponed in every pause. With 5,000
    waiting events, these claims and postponements were 160 transactions a second during the whole outage.

    The callers hold a lock.
    """

    def __init__(
        self, pause_s: float, clock: Callable[[], float], *, jitter: Callable[[float], float] = jittered
    ) -> None:
        self._pause_s, self._clock, self._jitter = pause_s, clock, jitter
        self._until: float | None = None  # the end of the pause; None without an outage
        self._is_trial_left = False

    @property
    def is_on(self) -> bool:
        return self._until is not None

    @property
    def seconds_left(self) -> float:
        return 0.0 if self._until is None else max(0.0, self._until - self._clock())

    def begin(self) -> bool:
        """Record that a send could not get its webhook secrets. Return whether an outage begins now."""
        if self._until is not None:
            return False  # the pause runs already: the send was a trial, or began before the outage
        self._start_pause()
        return True

    def begin_trial(self) -> bool:
        """Permit one trial send if a pause has ended. Return whether the trial was permitted.

        The next pause begins now. When this pause ends, the next trial is permitted, even if the present
        trial has no result by then.
        """
        if self._until is None or self._clock() < self._until:
            return False
        self._start_pause()
        self._is_trial_left = True
        return True

    def take_start(self) -> bool:
        """Return whether a send may start now. During an outage, return True only once after each pause."""
        may_start, self._is_trial_left = self._until is None or self._is_trial_left, False
        return may_start

    def end(self) -> bool:
        """Record that a send got its webhook secrets. Return whether an outage ends now."""
        was_on, self._until, self._is_trial_left = self.is_on, None, False
        return was_on

    def _start_pause(self) -> None:
        self._until = self._clock() + self._jitter(self._pause_s)
