"""A rate limit on wrong API keys per client address (token bucket).

Without a limit, one address sent 448,385 wrong keys in ten minutes. A key is counted only after it was found
to be wrong, so that a valid key is accepted even if other clients send wrong keys from the same address.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from math import ceil

from euterpe.api.problems import ProblemCode, Refused

# An address may send 30 wrong keys at once, and then one per second. These numbers are enough for a fleet
# of clients that all have the same wrong key.
_BURST, _PER_S = 30, 1.0
# Above the limit, a refusal is delayed by 1 s. At most 64 refusals per address are delayed at once, because
# each delayed refusal occupies a connection.
_HOLD_S, _MOST_HELD = 1.0, 64
# For each address, at most 4 of the 8 threads look up keys that were never valid before, and at most 256 such
# lookups run or wait.
_LOOKUPS, _MOST_WAITING = 4, 256
_MOST_ADDRESSES = 10_000
_IPV6_NETWORK_BITS = 64


@dataclass
class _Address:
    tokens: float
    counted_at: float
    held: int = 0
    waiting: int = 0
    lookups: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LOOKUPS))

    @property
    def is_busy(self) -> bool:
        return bool(self.held or self.waiting)


class AuthRateLimit:
    """A token bucket for each address. Not thread-safe: use it in one event loop."""

    def __init__(
        self,
        *,
        burst: int = _BURST,
        per_s: float = _PER_S,
        hold_s: float = _HOLD_S,
        most_addresses: int = _MOST_ADDRESSES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._burst, self._per_s, self._hold_s = burst, per_s, hold_s
        self._most_addresses, self._clock = most_addresses, clock
        self._addresses: OrderedDict[str, _Address] = OrderedDict()

    @asynccontextmanager
    async def lookup(self, address: str) -> AsyncIterator[None]:
        """Hold a lookup slot of the address during the block. Use it for a key that was never valid before.

        Raise Refused if too many lookups run or wait.
        """
        known = self._state_of(address)
        if known.waiting >= _MOST_WAITING:
            raise _too_many(1)
        known.waiting += 1
        try:
            async with known.lookups:
                yield
        finally:
            known.waiting -= 1

    async def count(self, address: str) -> None:
        """Count a wrong key. Raise Refused, after a delay, if the address has sent too many wrong keys."""
        known = self._state_of(address)
        now = self._clock()
        known.tokens = min(self._burst, known.tokens + (now - known.counted_at) * self._per_s)
        known.counted_at = now
        if known.tokens >= 1:
            known.tokens -= 1
            return
        retry_after_s = max(1, ceil((1 - known.tokens) / self._per_s))
        if known.held < _MOST_HELD:
            known.held += 1
            try:
                await asyncio.sleep(self._hold_s)
            finally:
                known.held -= 1
        raise _too_many(retry_after_s)

    def __len__(self) -> int:
        return len(self._addresses)

    def _state_of(self, address: str) -> _Address:
        network = network_of(address)
        known = self._addresses.get(network)
        if known is None:
            known = self._addresses[network] = _Address(self._burst, self._clock())
            self._evict_oldest()
        self._addresses.move_to_end(network)
        return known

    def _evict_oldest(self) -> None:
        oldest = next(iter(self._addresses))
        if len(self._addresses) > self._most_addresses and not self._addresses[oldest].is_busy:
            del self._addresses[oldest]


def network_of(address: str) -> str:
    """Return the network that shares one limit: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Address(int(parsed) >> _IPV6_NETWORK_BITS << _IPV6_NETWORK_BITS))


def _too_many(retry_after_s: int) -> Refused:
    return Refused(
        ProblemCode.TOO_MANY_WRONG_KEYS,
        "too many requests without a valid API key came from this address",
        retry_after_s=retry_after_s,
        headers={"connection": "close"},
    )
