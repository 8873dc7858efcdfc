"""A cache of the secrets that sign webhooks; it keeps each secret for a few seconds."""

import threading
import time
from collections.abc import Callable

from euterpe.domain.callback_codes import DeliveryCode
from euterpe.domain.errors import EuterpeError
from euterpe.store.secrets.requesters import Requesters

# The longest time until a new secret is used and an expired secret is not used any more.
_FRESH_S = 3.0
_CAPACITY = 1_000


class NoWebhookSecret(EuterpeError):
    """The requester has no valid secret. Its events are not sent, as receivers could not verify them."""

    code = DeliveryCode.NO_WEBHOOK_SECRET
    retryable = code.retryable

    def __init__(self, requester_id: str) -> None:
        super().__init__(f"{requester_id} has no valid secret; run `euterpe requester rotate-secret`")


class SigningSecrets:
    def __init__(
        self,
        requesters: Requesters,
        *,
        capacity: int = _CAPACITY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requesters, self._capacity, self._clock = requesters, capacity, clock
        self._guard = threading.Lock()
        self._remembered: dict[str, tuple[float, list[str]]] = {}

    def of(self, requester_id: str) -> list[str]:
        """Return the valid secrets of a requester. Raise `NoWebhookSecret` if there are none."""
        now = self._clock()
        with self._guard:
            read_at, secrets = self._remembered.get(requester_id, (-_FRESH_S, []))
        if now - read_at >= _FRESH_S:
            secrets = self._requesters.webhook_secrets(requester_id)
            self._remember(requester_id, now, secrets)
        if not secrets:
            raise NoWebhookSecret(requester_id)
        return secrets

    def _remember(self, requester_id: str, now: float, secrets: list[str]) -> None:
        with self._guard:
            self._remembered.pop(requester_id, None)
            self._remembered[requester_id] = (now, secrets)
            if len(self._remembered) > self._capacity:
                del self._remembered[next(iter(self._remembered))]  # the secrets read longest ago
