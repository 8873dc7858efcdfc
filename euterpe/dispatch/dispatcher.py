"""The webhook dispatcher: claims events from the outbox, sends signed webhooks, and settles the results.

One thread claims events and starts sends. The threads of a pool make the sends. One thread settles the
results, and another thread extends the leases.
"""

import threading
import time
from collections.abc import Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Self

import structlog

from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.dispatch.destination import Outcome, Send
from euterpe.dispatch.keys_pause import KeysPause
from euterpe.dispatch.lease_keeper import EventLeaseKeeper
from euterpe.dispatch.result_writer import ResultWriter, outage_pause_s
from euterpe.dispatch.scheduler import Postponement, Refusal, SendScheduler
from euterpe.dispatch.send_slots import max_concurrent_sends
from euterpe.dispatch.sender import DeliveryPolicy, Sender, SendWithdrawn, SigningSecrets
from euterpe.domain.retry import DeliverySchedule
from euterpe.net.egress import Egress
from euterpe.runtime.background_loop import BackgroundLoop
from euterpe.runtime.retry import jittered
from euterpe.store.engine.wakeup import Listener, Topic
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.origins import KnownOrigin, OriginKey
from euterpe.store.queue.outbox import ClaimedEvent, Delivery
from euterpe.store.store import Store

_log = structlog.get_logger(__name__)

# With SQLite every commit causes a wake-up, including our own commits. Without this pause, each commit would
# cause a claim that finds few events.
_CLAIM_PAUSE_S = 0.005
# The pause of all sends while the key provider is unavailable. Meanwhile the events wait in the outbox,
# without a lease and without a charge.
_KEYS_PAUSE_S = 5.0


class Dispatcher:
    """A context manager whose threads deliver the events of the outbox between `start` and `stop`.

    `egress` needs `max_concurrent_sends(concurrency)` connections. `listener` wakes the dispatcher for new
    events. `stop` closes the listener.
    """

    def __init__(
        self,
        store: Store,
        egress: Egress,
        worker_id: str,
        *,
        batch: int = 10,
        concurrency: int = 5,
        poll_ms: int = 1000,
        lease_ms: int = 60_000,
        heartbeat_ms: int = 15_000,
        max_attempts: int = 12,
        schedule: DeliverySchedule | None = None,
        deadline_s: float = 10.0,
        max_answer_bytes: int = 4096,
        keys_pause_s: float = _KEYS_PAUSE_S,
        listener: Listener | None = None,
    ) -> None:
        if deadline_s * 1000 > lease_ms / 2:
            raise ValueError("deadline_s must be at most half of the lease, or deliveries would overlap")
        self._store, self._worker_id = store, worker_id
        self._poll_s, self._deadline_s = poll_ms / 1000, deadline_s
        policy = DeliveryPolicy(max_attempts, schedule or DeliverySchedule(), deadline_s, max_answer_bytes)
        self._sender = Sender(egress, SigningSecrets(store.requesters), policy, store.callbacks)
        self._lease_keeper = EventLeaseKeeper(store.outbox, lease_ms=lease_ms, heartbeat_ms=heartbeat_ms)
        self._result_writer = ResultWriter(store.outbox, self._lease_keeper.forget)
        self._scheduler = SendScheduler(concurrency, batch, time.monotonic, max_attempts=max_attempts)
        self._keys = KeysPause(keys_pause_s, time.monotonic)
        # This lock guards the scheduler, the pause and the two fields below the lock.
        self._lock = threading.Lock()
        self._outbox_has_more = False  # True if the last claim got a whole batch
        self._skipped: Set[str] = frozenset()  # requesters that the last claim skipped
        self._failed_claims = 0  # the number of failed claims in a row
        self._senders = ThreadPoolExecutor(max_concurrent_sends(concurrency), "euterpe-dispatch-send")
        self._loop = BackgroundLoop("euterpe-dispatch-claim", self._claim_once, on_error=self._pause_claims)
        self._listener = listener or store.database.listen(Topic.OUTBOX)

    def start(self) -> None:
        for part in (self._lease_keeper, self._result_writer, self._loop):
            part.start()

    def stop(self, drain: bool = True) -> None:
        """Finish the sends under way and release the other events.

        Without `drain`, do not wait for receivers. The leases of the events under way then expire.
        """
        if self._loop.is_stopping:
            return
        with self._lock:
            self._loop.begin_stop()
            self._listener.wake()
        self._loop.stop()
        self._release_waiting()
        self._senders.shutdown(wait=drain)
        # Release the events that the senders put back because the database or the keys were unavailable.
        self._release_waiting()
        self._result_writer.stop()
        self._lease_keeper.stop()  # stopped after the senders and the writer, which need the leases
        self._listener.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- the claim thread

    def _claim_once(self) -> float:
        if self._claim():
            self._wait()
        self._failed_claims = 0
        return 0.0

    def _pause_claims(self, error: Exception) -> float:
        self._failed_claims += 1
        _log_error(error)
        return outage_pause_s(self._failed_claims)

    def _claim(self) -> bool:
        """Claim events and start sends. Return True if nothing is left to claim or there is no room."""
        self._hand_out()
        with self._lock:
            room, self._skipped = self._scheduler.room(), self._scheduler.saturated()
            is_trial, is_paused = self._keys.begin_trial(), self._keys.is_on
        if is_paused:
            self._postpone_all()
            room = 1 if is_trial else 0
        if not room:
            return True
        events = self._lease_keeper.claim(self._worker_id, room, skipped=self._skipped)
        with self._lock:
            unproven = self._scheduler.unproven_destinations(events)
        known = self._read_origins(unproven)
        with self._lock:
            self._scheduler.add(events, unproven, known)
            self._outbox_has_more = len(events) == room
        self._hand_out()
        with self._lock:
            return not (self._outbox_has_more and self._scheduler.room())

    def _read_origins(self, unproven: Set[OriginKey]) -> Mapping[OriginKey, KnownOrigin] | None:
        """Return the stored state of these receivers.

        Return None while the database is unavailable. Events are then sent without this state.
        """
        try:
            return self._store.outbox.origins.read(unproven)
        except StoreUnavailable as error:
            _log_error(error)
            return None

    def _hand_out(self) -> None:
        with self._lock:
            refusals = self._scheduler.refuse()
            self._start_sends()
            surplus = self._scheduler.hand_back()
        for refusal in refusals:
            self._refuse(refusal)
        while surplus:
            try:
                self._postpone(surplus[-1])
            except BaseException:
                with self._lock:
                    self._scheduler.add(event for left in surplus for event in left.events)
                raise
            surplus.pop()

    def _postpone(self, surplus: Postponement) -> None:
        self._store.outbox.postpone(surplus.events, surplus.delay_ms, waits_for=surplus.origin)
        self._lease_keeper.forget(surplus.events)
        _log.info(
            "events_postponed",
            count=len(surplus.events),
            requester_id=surplus.events[0].requester_id,
            again_in_ms=surplus.delay_ms,
        )

    def _postpone_all(self) -> None:
        """Postpone all waiting events until the current `KeysPause` ends, in one transaction."""
        with self._lock:
            waiting, pause_s = self._scheduler.clear(), self._keys.seconds_left
        if not waiting:
            return
        try:
            self._store.outbox.postpone(waiting, max(1, int(pause_s * 1000)))
        except BaseException:
            with self._lock:
                self._scheduler.add(waiting)
            raise
        self._lease_keeper.forget(waiting)

    def _refuse(self, refusal: Refusal) -> None:
        for event in refusal.events:
            self._result_writer.put(self._sender.refuse(event, refusal.failures))

    def _wait(self) -> None:
        """Wait for a wake-up, for the next poll, or for the next change.

        There are three changes: a send begins to count as slow, an event has waited for a long time, or the
        current `KeysPause` ends.
        """
        with self._lock:
            changes = (self._scheduler.next_change(), self._keys.seconds_left or None)
            has_more = self._outbox_has_more
        if not has_more:
            self._loop.sleep(_CLAIM_PAUSE_S)
        self._listener.wait(min(one for one in (jittered(self._poll_s), *changes) if one is not None))

    # -- the sending threads

    def _start_sends(self) -> None:
        """Start all sends that may start now. The caller holds the lock."""
        while not self._loop.is_stopping and (send := self._start_next()):
            self._senders.submit(self._run_sends, send)

    def _start_next(self) -> Send | None:
        return self._scheduler.start_next() if self._keys.take_start() else None

    def _run_sends(self, send: Send | None) -> None:
        while send is not None:
            delivery, outcome = self._deliver(send.event)
            send = self._finish(send, delivery, outcome)

    def _deliver(self, event: ClaimedEvent) -> tuple[Delivery | None, Outcome | None]:
        """Return the delivery to record, if any, and the outcome that updates the receiver's health.

        The outcome is None if the event has to wait because the database or the key provider is unavailable.
        """
        if not self._lease_keeper.holds_for(event, self._deadline_s):
            return self._lost(event)
        try:
            return self._sender.deliver(event, self._before_send)
        except SendWithdrawn:
            return self._lost(event)
        except KeyProviderUnavailable as error:
            self._pause_for_keys(error)
            return None, None
        except StoreUnavailable as error:
            _log_error(error)
            return None, None

    def _before_send(self, event: ClaimedEvent) -> None:
        """Record that the keys are available. Raise `SendWithdrawn` if the lease can end during the send."""
        with self._lock:
            is_back = self._keys.end()
        if is_back:
            _log.info("key_provider_available")
            self._listener.wake()
        if not self._lease_keeper.holds_for(event, self._deadline_s):
            raise SendWithdrawn

    def _lost(self, event: ClaimedEvent) -> tuple[None, Outcome]:
        _log.warning("lease_lost_before_send", event_id=event.event_id)
        self._lease_keeper.forget([event])
        return None, Outcome.NOTHING

    def _pause_for_keys(self, error: KeyProviderUnavailable) -> None:
        with self._lock:
            is_new = self._keys.begin()
        if is_new:
            _log.warning("key_provider_unavailable", error=str(error))
        self._listener.wake()  # wake the claim thread, which postpones the events

    def _finish(self, send: Send, delivery: Delivery | None, outcome: Outcome | None) -> Send | None:
        """Record the end of `send`, and record `delivery` unless it is None.

        Return the next send for this thread, or None.
        """
        with self._lock:
            change = self._scheduler.finish(send, outcome or Outcome.NOTHING)
            if delivery is not None:
                self._result_writer.put(replace(delivery, origin_change=change) if change else delivery)
            for refusal in self._scheduler.refuse():
                self._refuse(refusal)
            if outcome is None:
                # Nothing was sent, because the database or the key provider is unavailable. Put the event
                # back into the scheduler: the claim thread sends it later or postpones it.
                self._scheduler.add([send.event])
                return None
            if self._loop.is_stopping:
                return None
            following = self._start_next()
            self._start_sends()
            if self._may_claim_more():
                self._listener.wake()
        return following

    def _may_claim_more(self) -> bool:
        """Return whether there is now room for events that the last claim left in the outbox."""
        if self._outbox_has_more and self._scheduler.room():
            return True
        return bool(self._skipped) and not self._skipped <= self._scheduler.saturated()

    def _release_waiting(self) -> None:
        with self._lock:
            waiting = self._scheduler.clear()
        try:
            if waiting:
                self._store.outbox.release(waiting)
        except Exception as error:  # noqa: BLE001  `stop` must go on; the leases of the events will expire
            _log_error(error)
        self._lease_keeper.forget(waiting)


def _log_error(error: Exception) -> None:
    if isinstance(error, StoreUnavailable):
        _log.warning("database_unavailable", error=str(error))
    else:
        _log.error("dispatcher_failed", error=str(error), exc_info=error)
