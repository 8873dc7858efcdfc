"""Authentication by API key, with a short cache, and authorization by scope."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from starlette.requests import Request

from euterpe.api.auth_rate_limit import AuthRateLimit
from euterpe.api.middleware import context_of
from euterpe.api.problems import ProblemCode, Refused
from euterpe.api.thread_pool import StoreThreadPool
from euterpe.crypto.apikeys import HashedKey, hashed, parse
from euterpe.crypto.errors import MalformedApiKey
from euterpe.domain.scopes import Scope
from euterpe.store.errors import Unauthorized
from euterpe.store.secrets.requesters import Principal

# A key in use is looked up once per interval. A disabled key is refused after at most one interval.
CACHED_S = 2.0
# One query looks up all keys that were used within this time. Otherwise, 1,000 workers with different keys
# would need a separate query for each of their calls.
_TOGETHER_S = 60.0
_MOST_REMEMBERED = 4_096


@dataclass
class _KnownKey:
    key: HashedKey
    principal: Principal
    until: float
    used_at: float


class Authenticator:
    """Authentication by API key. The cache holds hashes of valid keys only, so no key stays in memory."""

    def __init__(
        self,
        authenticate: Callable[[str], Principal],
        still_valid: Callable[[Sequence[HashedKey]], Mapping[HashedKey, Principal]],
        pool: StoreThreadPool,
        clock: Callable[[], float] = time.monotonic,
        wrong_keys: AuthRateLimit | None = None,
    ) -> None:
        self._authenticate, self._still_valid, self._pool, self._clock = (
            authenticate,
            still_valid,
            pool,
            clock,
        )
        self._wrong_keys = AuthRateLimit() if wrong_keys is None else wrong_keys
        self._known: OrderedDict[bytes, _KnownKey] = OrderedDict()
        self._lookups: dict[bytes, asyncio.Task[Principal]] = {}
        self._renewal: asyncio.Task[dict[bytes, Principal | None]] | None = None

    async def authenticate(self, request: Request, scope: Scope) -> Principal:
        """Return the owner of the request's key. Raise if the key is missing or wrong, or lacks the scope."""
        address = request.client.host if request.client else ""
        try:
            principal = await self._principal(_key_in(request), address)
        except (Unauthorized, MalformedApiKey, _NoKey):
            await self._wrong_keys.count(address)
            raise
        context_of(request).requester_id = principal.requester_id
        if scope not in principal.scopes:
            raise Refused(
                ProblemCode.FORBIDDEN,
                f"this needs a key with the scope {scope}",
                headers={
                    "www-authenticate": f'Bearer realm="euterpe", error="insufficient_scope", scope="{scope}"'
                },
            )
        return principal

    async def _principal(self, key: str, address: str) -> Principal:
        digest = sha256(key.encode()).digest()
        known = self._known.get(digest)
        if known is not None:
            known.used_at = self._clock()
            self._known.move_to_end(digest)
            return known.principal if known.until > self._clock() else await self._renewed(key, digest)
        # A key that was valid before must not queue behind the wrong keys of other clients.
        if digest in self._lookups:
            return await self._shared_lookup(key, digest)
        parse(key)  # a mistyped key fails its checksum, and needs no query
        async with self._wrong_keys.lookup(address):
            return await self._shared_lookup(key, digest)

    async def _renewed(self, key: str, digest: bytes) -> Principal:
        """Look up all keys in use by one query. Return the owner of `key`, or raise `Unauthorized`."""
        while digest in self._known:
            if self._renewal is None:
                self._renewal = asyncio.ensure_future(self._renew())
            owners = await asyncio.shield(self._renewal)
            if digest in owners:  # otherwise the query began before this key was used, and is repeated
                owner = owners[digest]
                if owner is None:
                    raise Unauthorized
                return owner
        return await self._shared_lookup(key, digest)

    async def _renew(self) -> dict[bytes, Principal | None]:
        """Look up the keys in use; return the owner of each, or None for a key that is not valid any more."""
        now = self._clock()
        used = {one.key: digest for digest, one in self._known.items() if one.used_at > now - _TOGETHER_S}
        try:
            valid = await self._pool.run(partial(self._still_valid, list(used)))
        finally:
            self._renewal = None
        for key, digest in used.items():
            if key not in valid:
                self._known.pop(digest, None)
            elif (known := self._known.get(digest)) is not None:
                known.principal, known.until = valid[key], now + CACHED_S
        return {digest: valid.get(key) for key, digest in used.items()}

    async def _shared_lookup(self, key: str, digest: bytes) -> Principal:
        """Run one query for all concurrent requests with this key.

        The query continues even if the client of the first request disconnects.
        """
        lookup = self._lookups.get(digest)
        if lookup is None:
            lookup = self._lookups[digest] = asyncio.ensure_future(self._look_up(key, digest))
        return await asyncio.shield(lookup)

    async def _look_up(self, key: str, digest: bytes) -> Principal:
        now = self._clock()
        try:
            principal = await self._pool.run(partial(self._authenticate, key))
        except Unauthorized:
            self._known.pop(digest, None)
            raise
        finally:
            del self._lookups[digest]
        self._known[digest] = _KnownKey(hashed(parse(key)), principal, now + CACHED_S, now)
        self._known.move_to_end(digest)
        if len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)
        return principal


class _NoKey(Refused):
    """Raised when the request has no key."""


def _key_in(request: Request) -> str:
    given = request.headers.get("authorization")
    if given is not None:
        scheme, _, key = given.partition(" ")
        if scheme.lower() == "bearer":
            return key.strip()
    key = request.headers.get("x-api-key", "")
    if key:
        return key
    raise _NoKey(
        ProblemCode.UNAUTHORIZED,
        "send an API key, as `Authorization: Bearer …` or as `X-API-Key`",
        headers={"www-authenticate": 'Bearer realm="euterpe"'},
    )
