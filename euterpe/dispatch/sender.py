"""Deliveries: sign an event, send it, and decide from the answer whether to send the event again."""

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import assert_never

import structlog

from euterpe import __version__
from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.crypto.signing import webhook_headers
from euterpe.dispatch.destination import Outcome, origin_of
from euterpe.domain.callback_codes import DeliveryCode
from euterpe.domain.canonical import hide_query
from euterpe.domain.errors import EuterpeError
from euterpe.domain.retry import (
    Delivered,
    DeliveryDecision,
    DeliverySchedule,
    Redeliver,
    Undeliverable,
    decide_delivery,
)
from euterpe.domain.text import to_storable
from euterpe.net.egress import Egress, EgressResponse
from euterpe.net.errors import EgressError, EgressRefused
from euterpe.runtime.retry import draw
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.outbox import ClaimedEvent, Delivery
from euterpe.store.secrets.callbacks import Callbacks
from euterpe.store.secrets.requesters import Requesters

_log = structlog.get_logger(__name__)

# Secrets are cached for this time. So the dispatcher can use old secrets for up to this time after a change.
_FRESH_S = 3.0
_CAPACITY = 1_000


class NoWebhookSecret(EuterpeError):
    """Raised when a requester has no valid secret. No event is sent, because no receiver could verify it."""

    code = DeliveryCode.NO_WEBHOOK_SECRET
    retryable = code.retryable

    def __init__(self, requester_id: str) -> None:
        super().__init__(f"{requester_id} has no valid secret; run `euterpe requester rotate-secret`")


class SendWithdrawn(Exception):
    """Raised by `before_send` when an event must not be sent any more."""


class SigningSecrets:
    """A cache of the secrets that sign webhooks. It keeps each secret for a few seconds."""

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

    def for_requester(self, requester_id: str) -> list[str]:
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
                del self._remembered[next(iter(self._remembered))]  # delete the oldest secrets


@dataclass(frozen=True)
class DeliveryPolicy:
    """The limits of one delivery, and the schedule of its retries."""

    max_attempts: int
    schedule: DeliverySchedule
    deadline_s: float
    max_answer_bytes: int


class Sender:
    """A sender of signed webhooks, shared by the threads that send."""

    def __init__(
        self,
        egress: Egress,
        secrets: SigningSecrets,
        policy: DeliveryPolicy,
        callbacks: Callbacks,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._egress, self._secrets, self._policy, self._wall_clock = egress, secrets, policy, wall_clock
        self._callbacks = callbacks

    def deliver(
        self, event: ClaimedEvent, before_send: Callable[[ClaimedEvent], None] = lambda _: None
    ) -> tuple[Delivery, Outcome]:
        """Send an event. Return the delivery to record, and the outcome that updates the receiver's health.

        `before_send` can withdraw the event at the last moment. So `before_send` is called after the secrets
        have been read, because a key provider can take seconds to decrypt the secrets.

        Raise `StoreUnavailable` or `KeyProviderUnavailable` if the secrets cannot be read, and
        `SendWithdrawn` if `before_send` raises it. In all three cases nothing was sent. No other error is
        raised.
        """
        began = time.monotonic()
        answer: EgressResponse | None = None
        url = event.url
        try:
            url = self._whole_url(event)
            secrets = self._secrets.for_requester(event.requester_id)
            before_send(event)
            answer = self._send(event, url, secrets)
            decision = self._judge(event, answer)
            outcome = Outcome.ANSWER if isinstance(decision, Delivered) else Outcome.REFUSAL
        except (StoreUnavailable, KeyProviderUnavailable, SendWithdrawn):
            raise
        except EgressRefused as refused:
            # The operator's policy refused the URL. A retry would not help, but a replay works after the
            # operator has changed the policy.
            decision, outcome = Undeliverable(_reason(refused)), Outcome.NOTHING
        except EuterpeError as failure:
            # All other errors are retried, even errors of certificates and keys, because people can correct
            # the causes of these errors.
            decision = self._retry(event, _reason(failure))
            outcome = Outcome.SILENCE if isinstance(failure, EgressError) else Outcome.NOTHING
        except Exception as error:  # noqa: BLE001  one bad event must not stop the others
            _log.exception("delivery_unexpected_error", event_id=event.event_id, job_id=event.job_id)
            reason = f"{DeliveryCode.INTERNAL_ERROR}: {type(error).__name__}"
            decision, outcome = self._retry(event, reason), Outcome.NOTHING
        took_ms = int((time.monotonic() - began) * 1000)
        delivery = _delivery(event, decision, answer, took_ms, url)
        _log_delivery(delivery)
        return delivery, outcome

    def refuse(self, event: ClaimedEvent, failures: int) -> Delivery:
        """Return a delivery that failed without a send because the receiver's circuit breaker is open."""
        problem = f"{failures} sends in a row were not answered, so this send was not made"
        reason = f"{DeliveryCode.RECEIVER_DOWN}: {problem}"
        delivery = _delivery(event, self._retry(event, reason), None, 0, event.url)
        _log_delivery(delivery)
        return delivery

    def _whole_url(self, event: ClaimedEvent) -> str:
        return self._callbacks.webhook_url(
            event.url, event.job_id, event.requester_id, event.sealed_callbacks
        )

    def _send(self, event: ClaimedEvent, url: str, secrets: Sequence[str]) -> EgressResponse:
        body = event.body.encode()
        sent_at = int(self._wall_clock())
        signed = webhook_headers(event.webhook_format, secrets, event.event_id, body, sent_at)
        return self._egress.request(
            "POST",
            url,
            headers={
                "content-type": "application/json",
                "user-agent": f"euterpe/{__version__}",
                **signed,
            },
            body=body,
            deadline_s=self._policy.deadline_s,
            max_bytes=self._policy.max_answer_bytes,
        )

    def _judge(self, event: ClaimedEvent, answer: EgressResponse) -> DeliveryDecision:
        wait_ms = retry_after_ms(answer.headers.get("retry-after"), self._wall_clock())
        return self._decide(event, answer.status, retry_after_ms=wait_ms)

    def _retry(self, event: ClaimedEvent, failure: str) -> DeliveryDecision:
        return self._decide(event, None, failure=failure)

    def _decide(
        self,
        event: ClaimedEvent,
        status: int | None,
        *,
        retry_after_ms: int | None = None,
        failure: str = "",
    ) -> DeliveryDecision:
        return decide_delivery(
            status,
            attempt_count=event.attempt_count,
            max_attempts=self._policy.max_attempts,
            retry_after_ms=retry_after_ms,
            schedule=self._policy.schedule,
            draw=draw(),
            failure=failure,
        )


def _reason(error: EuterpeError) -> str:
    return to_storable(f"{error.code}: {error}")


def _delivery(
    event: ClaimedEvent, decision: DeliveryDecision, answer: EgressResponse | None, took_ms: int, url: str
) -> Delivery:
    # If the receiver answered 429 or sent a `Retry-After`, the event waits for its whole delay, even if the
    # receiver recovers from an outage earlier.
    is_timed = answer is not None and (answer.status == 429 or "retry-after" in answer.headers)
    waits_for = origin_of(event.url) if isinstance(decision, Redeliver) and not is_timed else None
    if answer is None:
        return Delivery(event, decision, duration_ms=took_ms, waits_for=waits_for)
    said = hide_query(answer.body.decode("utf-8", "replace"), url)
    return Delivery(event, decision, answer.status, duration_ms=took_ms, answer=said, waits_for=waits_for)


def _log_delivery(delivery: Delivery) -> None:
    event, decision = delivery.event, delivery.decision
    fields = {
        "event_id": event.event_id,
        "job_id": event.job_id,
        "attempt": event.attempt_count,
        "status": delivery.status_code,
        "ms": delivery.duration_ms,
    }
    match decision:
        case Delivered():
            # The level is debug, because the delivery log already has this delivery, and writing a log line
            # is a fifth of the work of a delivery.
            _log.debug("event_delivered", **fields)
        case Undeliverable():
            _log.error("event_undeliverable", reason=decision.reason, **fields)
        case Redeliver():
            again = decision.delay_ms
            _log.warning("event_not_delivered", reason=decision.reason, again_in_ms=again, **fields)
        case _:
            assert_never(decision)


# Ten digits are more than any wait needs. `DeliverySchedule.longest_retry_after_ms` limits the value.
_SECONDS = re.compile(r"[0-9]{1,10}")


def retry_after_ms(value: str | None, now: float) -> int | None:
    """Return the wait in a `Retry-After` header, or None if it is malformed. `now` is in epoch seconds."""
    value = (value or "").strip()
    if _SECONDS.fullmatch(value):
        return int(value) * 1000
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:  # the zone "-0000" means UTC
        date = date.replace(tzinfo=UTC)
    return max(0, int((date.timestamp() - now) * 1000))
