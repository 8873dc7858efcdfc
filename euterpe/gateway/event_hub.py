"""Read the events of all watched jobs with one blocking XREAD, and give them to their subscribers.

With an XREAD for each client, 500 clients would hold 500 connections to Redis.
"""

import asyncio
import re
from collections import Counter, deque
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from euterpe.bridges.redis_connection import word
from euterpe.bridges.stream_jobs import events_key
from euterpe.gateway.problems import GatewayRefusal

_log = structlog.get_logger(__name__)

# The longest time that an XREAD blocks. The time limit of the reader's connection must be longer.
BLOCK_S = 5.0
_PAGE = 100  # events of one job in one read
_MOST_WAITING = 2_000  # events that were not sent to a client yet
_UNBLOCK_EVERY_S = 0.002
_CANCEL_EVERY_S = 0.05
_ID = re.compile(r"(\d{1,19})-(\d{1,19})")

Position = tuple[int, int]


@dataclass(frozen=True)
class StreamEvent:
    event_id: str
    fields: dict[str, str]


class Ended(StrEnum):
    """The reasons for the end of a subscription, except a terminal event."""

    EXPIRED = "expired"  # the event stream is not in Redis any more
    TOO_SLOW = "too_slow"
    STOPPING = "stopping"


def position_of(event_id: str) -> Position:
    """Return the position of an event. For a malformed id, return the position before the first event."""
    found = _ID.fullmatch(event_id)
    return (int(found[1]), int(found[2])) if found else (0, 0)


class Subscription:
    """The events of one job after a position."""

    def __init__(self, key: str, position: Position) -> None:
        self.key, self.position = key, position
        self.ended: Ended | None = None
        self._waiting: deque[StreamEvent] = deque()
        self._changed = asyncio.Event()

    async def next(self, timeout_s: float) -> Sequence[StreamEvent]:
        """Return the next events, or nothing if no event arrives in `timeout_s` or the subscription ends."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()
        events = tuple(self._waiting)
        self._waiting.clear()
        return events

    def give(self, events: Sequence[StreamEvent]) -> None:
        fresh = [event for event in events if position_of(event.event_id) > self.position]
        if fresh:
            self.position = position_of(fresh[-1].event_id)
            self._waiting.extend(fresh)
            self._changed.set()
        if len(self._waiting) > _MOST_WAITING:
            self.end(Ended.TOO_SLOW)

    def end(self, why: Ended) -> None:
        self.ended = why
        self._changed.set()


class EventHub:
    """The only reader of the event streams in a gateway process. Use it in one event loop.

    `reader` must have a single connection: `CLIENT UNBLOCK` with the id of this connection ends an XREAD
    early.
    """

    def __init__(
        self,
        reader: Redis,
        client: Redis,
        *,
        max_streams: int = 5_000,
        max_of_requester: int = 2_500,
        check_every_s: float = 15.0,
        retry_s: float = 0.25,
    ) -> None:
        self._reader, self._client = reader, client
        self._max_streams, self._max_of_requester = max_streams, max_of_requester
        self._streams_of: Counter[str] = Counter()
        self._check_every_s, self._retry_s = check_every_s, retry_s
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._count, self._next_check = 0, 0.0
        self._joined = asyncio.Event()
        self._is_stale = self._is_stopping = False
        self._reader_id: int | None = None  # None while no XREAD is under way
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_unblocking = self._is_down = False

    @property
    def open_streams(self) -> int:
        return self._count

    def start(self) -> None:
        self._spawn(self._run())

    async def stop(self) -> None:
        self.end_all()
        # redis-py may lose a cancellation that arrives just as a call ends, so the cancellation is repeated.
        while tasks := set(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_CANCEL_EVERY_S)

    def end_all(self) -> None:
        """End all subscriptions, including later ones, because the service is stopping."""
        self._is_stopping = True
        for subscription in [one for several in self._subscriptions.values() for one in several]:
            subscription.end(Ended.STOPPING)

    @contextmanager
    def subscribe(self, job_id: str, after: str, requester_id: str = "") -> Iterator[Subscription]:
        """Subscribe to the events of a job. Raise `GatewayRefusal` if too many streams are open.

        The limit for one requester does not apply if `requester_id` is empty.
        """
        is_greedy = bool(requester_id) and self._streams_of[requester_id] >= self._max_of_requester
        if is_greedy or self._count >= self._max_streams:
            raise GatewayRefusal(
                429, "too_many_streams", "too many event streams", headers={"retry-after": "5"}
            )
        subscription = Subscription(events_key(job_id), position_of(after))
        self._count += 1
        self._streams_of[requester_id] += 1
        self._subscriptions.setdefault(subscription.key, set()).add(subscription)
        if self._is_stopping:
            subscription.end(Ended.STOPPING)
        self._joined.set()
        self._is_stale = True
        if self._reader_id is not None and not self._is_unblocking:
            self._spawn(self._unblock())
        try:
            yield subscription
        finally:
            self._count -= 1
            self._streams_of[requester_id] -= 1
            if not self._streams_of[requester_id]:
                del self._streams_of[requester_id]
            self._subscriptions[subscription.key].discard(subscription)
            if not self._subscriptions[subscription.key]:
                del self._subscriptions[subscription.key]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        while not self._is_stopping:
            if not self._subscriptions:
                self._joined.clear()
                await self._joined.wait()
            try:
                await self._check_if_due()
                await self._read()
            except RedisError as error:
                if not self._is_down:
                    _log.warning("redis_unavailable", error=word(error), streams=self._count)
                self._is_down = True
                await asyncio.sleep(self._retry_s)  # no event is lost, because positions are kept
            else:
                if self._is_down:
                    _log.info("redis_available", streams=self._count)
                self._is_down = False

    async def _read(self) -> None:
        """Wait for events of any watched job, and give them to the subscribers of the job."""
        reader_id = await self._reader.client_id()
        asked = {key: min(one.position for one in some) for key, some in self._subscriptions.items()}
        if not asked:
            return
        self._is_stale, self._reader_id = False, reader_id
        try:
            found: Any = await self._reader.xread(
                {key: f"{milliseconds}-{sequence}" for key, (milliseconds, sequence) in asked.items()},
                count=_PAGE,
                block=int(BLOCK_S * 1000),
            )
        finally:
            self._reader_id = None
        for key, entries in found or ():
            events = [StreamEvent(event_id, fields) for event_id, fields in entries]
            for subscription in self._subscriptions.get(key, ()):
                # A subscription that joined during the read may need earlier events first. So the
                # next read begins at the position of this subscription.
                if subscription.position >= asked[key]:
                    subscription.give(events)

    async def _unblock(self) -> None:
        """End the XREAD, because it does not include the newest subscriptions."""
        self._is_unblocking = True
        try:
            while self._is_stale and self._reader_id is not None:
                # Redis may not have received the XREAD yet. It then answers 0, so the call is repeated.
                await self._client.client_unblock(self._reader_id)
                await asyncio.sleep(_UNBLOCK_EVERY_S)
        except RedisError as error:
            _log.debug("unblock_failed", error=word(error))  # the XREAD ends by itself after `BLOCK_S`
        finally:
            self._is_unblocking = False

    async def _check_if_due(self) -> None:
        """End the subscriptions to event streams that have expired.

        This check is needed, because an XREAD does not report expired streams.
        """
        now = asyncio.get_running_loop().time()
        if now < self._next_check:
            return
        keys = list(self._subscriptions)
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.exists(key)
        for key, there in zip(keys, await pipeline.execute(), strict=True):
            if not there:
                for subscription in self._subscriptions.get(key, ()):
                    subscription.end(Ended.EXPIRED)
        self._next_check = now + self._check_every_s
