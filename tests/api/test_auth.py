"""Authentication by API key: the cache of valid keys, and the rate limit on wrong keys."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import cache

import pytest
from starlette.requests import Request

from euterpe.api.auth import CACHED_S, Authenticator
from euterpe.api.auth_rate_limit import AuthRateLimit, network_of
from euterpe.api.middleware import RequestContext
from euterpe.api.problems import Refused
from euterpe.api.thread_pool import StoreThreadPool
from euterpe.crypto import apikeys
from euterpe.crypto.apikeys import HashedKey
from euterpe.crypto.errors import MalformedApiKey
from euterpe.domain.scopes import Scope
from euterpe.store.errors import Unauthorized
from euterpe.store.secrets.requesters import Principal
from tests.api.serving import Requester, Served, assert_problem


def test_a_key_is_taken_from_either_header(on_every_engine: Served) -> None:
    key = on_every_engine.requester().key
    for headers in (
        {"authorization": f"Bearer {key}"},
        {"authorization": f"bearer  {key}"},
        {"x-api-key": key},
    ):
        assert on_every_engine.anonymous.get("/transcode/jobs", headers=headers).status_code == 200


def test_without_a_key_nothing_is_let_in(served: Served) -> None:
    for headers in ({}, {"authorization": "Basic dTpw"}, {"x-api-key": ""}):
        answer = served.anonymous.get("/transcode/jobs", headers=headers)
        assert_problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == 'Bearer realm="euterpe"'


def test_a_wrong_key_and_a_typo_are_refused_and_not_echoed(served: Served, requester: Requester) -> None:
    typo = requester.key[:20] + ("A" if requester.key[20] != "A" else "B") + requester.key[21:]
    unknown = apikeys.mint().plaintext
    for wrong, code in ((unknown, "unauthorized"), (typo, "malformed_api_key"), ("é", "malformed_api_key")):
        answer = served.anonymous.get("/transcode/jobs", headers={b"x-api-key": wrong.encode()})
        assert_problem(answer, 401, code)
        assert wrong not in answer.text


def test_a_disabled_requester_is_refused(served: Served, requester: Requester) -> None:
    served.store.requesters.disable(requester.id)
    assert_problem(requester.status("x"), 401, "unauthorized")


NAMES: dict[str, str] = {}


@cache
def key_named(name: str) -> str:
    """Return a well-formed key. The same name always gives the same key."""
    key = apikeys.mint().plaintext
    NAMES[key] = name
    return key


class CountingKeys:
    """A key store that counts its lookups."""

    def __init__(self) -> None:
        self.lookups, self.now, self.valid = 0, 0.0, True
        self.owners: dict[HashedKey, str] = {}
        self.revoked: set[HashedKey] = set()

    def authenticate(self, key: str) -> Principal:
        self.lookups += 1
        if not self.valid:
            raise Unauthorized
        self.owners[apikeys.hashed(apikeys.parse(key))] = NAMES[key]
        return Principal(f"owner of {NAMES[key]}", frozenset({Scope.READ}))

    def still_valid(self, keys: Sequence[HashedKey]) -> dict[HashedKey, Principal]:
        self.lookups += 1
        valid = keys if self.valid else ()
        return {
            key: Principal(f"owner of {self.owners[key]}", frozenset({Scope.READ}))
            for key in valid
            if key not in self.revoked
        }


@pytest.fixture
def keys() -> CountingKeys:
    return CountingKeys()


def run_with_authenticator(keys: CountingKeys, scenario: Callable[[Authenticator], object]) -> None:
    pool = StoreThreadPool()
    wrong_keys = AuthRateLimit(burst=3, hold_s=0.0, clock=lambda: keys.now)
    try:
        authenticator = Authenticator(keys.authenticate, keys.still_valid, pool, lambda: keys.now, wrong_keys)
        asyncio.run(scenario(authenticator))  # type: ignore[arg-type]
    finally:
        pool.stop()


def request(name: str = "k", *, address: str = "192.0.2.1") -> Request:
    headers = [(b"x-api-key", key_named(name).encode())]
    scope = {
        "type": "http",
        "headers": headers,
        "client": (address, 1),
        "euterpe.context": RequestContext("id"),
    }
    return Request(scope)


def test_a_busy_key_is_looked_up_once_in_two_seconds(keys: CountingKeys) -> None:
    async def scenario(authenticator: Authenticator) -> None:
        for _ in range(10):
            await authenticator.authenticate(request(), Scope.READ)
        assert keys.lookups == 1
        keys.now += CACHED_S
        await authenticator.authenticate(request(), Scope.READ)
        assert keys.lookups == 2

    run_with_authenticator(keys, scenario)


def test_the_keys_of_many_workers_are_looked_up_together(keys: CountingKeys) -> None:
    """Each key is used less often than once in two seconds, so its cached result has expired."""

    async def scenario(authenticator: Authenticator) -> None:
        for number in range(100):
            await authenticator.authenticate(request(f"k{number}"), Scope.READ)
        for _ in range(5):
            keys.now += CACHED_S
            found = [await outcome(authenticator, request(f"k{number}")) for number in range(100)]
            assert found == [f"owner of k{number}" for number in range(100)]
        assert keys.lookups == 105

    run_with_authenticator(keys, scenario)


def test_a_revoked_key_among_many_is_refused_after_two_seconds(keys: CountingKeys) -> None:
    async def scenario(authenticator: Authenticator) -> None:
        for name in ("good", "revoked"):
            await authenticator.authenticate(request(name), Scope.READ)
        keys.revoked = {key for key, name in keys.owners.items() if name == "revoked"}
        keys.now += CACHED_S
        assert await outcome(authenticator, request("good")) == "owner of good"
        assert len(authenticator._known) == 1

    run_with_authenticator(keys, scenario)


def test_a_key_that_was_not_used_for_long_is_looked_up_when_it_is_used(keys: CountingKeys) -> None:
    async def scenario(authenticator: Authenticator) -> None:
        await authenticator.authenticate(request("seldom"), Scope.READ)
        keys.now += 1_000
        await authenticator.authenticate(request("often"), Scope.READ)
        keys.now += CACHED_S
        both = (outcome(authenticator, request(name)) for name in ("often", "seldom"))
        assert await asyncio.gather(*both) == ["owner of often", "owner of seldom"]

    run_with_authenticator(keys, scenario)


def test_concurrent_requests_with_one_key_share_one_lookup(keys: CountingKeys) -> None:
    async def scenario(authenticator: Authenticator) -> None:
        admitted = await asyncio.gather(
            *(authenticator.authenticate(request(), Scope.READ) for _ in range(50))
        )
        assert {principal.requester_id for principal in admitted} == {"owner of k"}
        assert keys.lookups == 1

    run_with_authenticator(keys, scenario)


def test_a_refusal_is_not_remembered_and_an_old_success_is_not_trusted(keys: CountingKeys) -> None:
    async def scenario(authenticator: Authenticator) -> None:
        await authenticator.authenticate(request(), Scope.READ)
        keys.valid, keys.now = False, CACHED_S
        for _ in range(2):
            with pytest.raises(Unauthorized):
                await authenticator.authenticate(request(), Scope.READ)
        keys.valid = True
        await authenticator.authenticate(request(), Scope.READ)
        assert keys.lookups == 4

    run_with_authenticator(keys, scenario)


def test_a_flood_of_keys_is_not_kept(keys: CountingKeys) -> None:
    async def scenario(authenticator: Authenticator) -> None:
        for number in range(5_000):
            await authenticator.authenticate(request(f"k{number}"), Scope.READ)
        await authenticator.authenticate(request("k4999"), Scope.READ)
        assert keys.lookups == 5_000
        await authenticator.authenticate(request("k0"), Scope.READ)
        assert keys.lookups == 5_001

    run_with_authenticator(keys, scenario)


async def outcome(authenticator: Authenticator, request: Request) -> str:
    try:
        return (await authenticator.authenticate(request, Scope.READ)).requester_id
    except Unauthorized:
        return "401"
    except Refused as refused:
        return f"429 {refused.code}" if int(refused.headers["retry-after"]) > 0 else "no time"


def test_wrong_keys_of_one_address_are_refused_after_a_burst_and_others_are_not(keys: CountingKeys) -> None:
    async def scenario(authenticator: Authenticator) -> None:
        keys.valid = False
        outcomes = [await outcome(authenticator, request(f"wrong {n}")) for n in range(5)]
        assert outcomes == ["401"] * 3 + ["429 too_many_wrong_keys"] * 2
        assert await outcome(authenticator, request("wrong", address="192.0.2.2")) == "401"
        keys.now += 1
        assert [await outcome(authenticator, request("wrong")) for _ in range(2)] == [
            "401",
            "429 too_many_wrong_keys",
        ]

    run_with_authenticator(keys, scenario)


def test_a_valid_key_is_admitted_from_an_address_that_sent_too_many_wrong_ones(keys: CountingKeys) -> None:
    """Behind a NAT or a proxy, many clients share one address."""

    async def scenario(authenticator: Authenticator) -> None:
        assert await outcome(authenticator, request("seen before")) == "owner of seen before"
        keys.valid = False
        for n in range(10):
            await outcome(authenticator, request(f"wrong {n}"))
        keys.valid = True
        assert await outcome(authenticator, request("never seen")) == "owner of never seen"
        keys.now += CACHED_S
        assert await outcome(authenticator, request("seen before")) == "owner of seen before"

    run_with_authenticator(keys, scenario)


def test_a_key_with_a_typo_costs_no_query(keys: CountingKeys) -> None:
    async def scenario(authenticator: Authenticator) -> None:
        typo = request()
        typo.scope["headers"] = [(b"x-api-key", key_named("k").encode()[:-1] + b"-")]
        with pytest.raises(MalformedApiKey):
            await authenticator.authenticate(typo, Scope.READ)
        assert keys.lookups == 0

    run_with_authenticator(keys, scenario)


def test_a_key_that_is_valid_no_longer_is_forgotten(keys: CountingKeys) -> None:
    async def scenario(authenticator: Authenticator) -> None:
        await authenticator.authenticate(request(), Scope.READ)
        keys.valid, keys.now = False, CACHED_S
        assert await outcome(authenticator, request()) == "401"
        assert authenticator._known == {}

    run_with_authenticator(keys, scenario)


def test_guesses_of_one_address_keep_no_more_than_their_share_of_the_threads() -> None:
    """The other threads stay free for requests from other addresses."""
    started, may_end = threading.Semaphore(0), threading.Event()

    def authenticate(key: str) -> Principal:
        if NAMES[key].startswith("wrong"):
            started.release()
            may_end.wait(30)
            raise Unauthorized
        return Principal(NAMES[key], frozenset({Scope.READ}))

    async def scenario() -> None:
        authenticator = Authenticator(authenticate, CountingKeys().still_valid, pool)
        guesses = [asyncio.ensure_future(outcome(authenticator, request(f"wrong {n}"))) for n in range(20)]
        for _ in range(4):
            await asyncio.to_thread(started.acquire)
        assert await outcome(authenticator, request("tenant", address="192.0.2.9")) == "tenant"
        assert not any(guess.done() for guess in guesses)
        may_end.set()
        assert set(await asyncio.gather(*guesses)) == {"401"}

    pool = StoreThreadPool()
    try:
        asyncio.run(scenario())
    finally:
        pool.stop()


def test_addresses_are_remembered_up_to_a_bound() -> None:
    async def count() -> None:
        wrong_keys = AuthRateLimit(most_addresses=100)
        for n in range(1_000):
            await wrong_keys.count(f"2001:db8:{n:x}::1")
        assert len(wrong_keys) == 100

    asyncio.run(count())


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::"),
        ("/run/socket", "/run/socket"),
        ("", ""),
    ],
)
def test_an_ipv6_client_is_known_by_its_network(address: str, network: str) -> None:
    assert network_of(address) == network


def test_a_flood_of_wrong_keys_is_slowed_down_and_its_connections_are_closed(served: Served) -> None:
    requester = served.requester()
    answers = [served.anonymous.get("/transcode/jobs") for _ in range(30)]
    assert {answer.status_code for answer in answers} == {401}
    refused = served.anonymous.get("/transcode/jobs", headers={"x-api-key": apikeys.mint().plaintext})
    assert_problem(refused, 429, "too_many_wrong_keys")
    assert int(refused.headers["retry-after"]) > 0
    assert refused.headers["connection"] == "close"
    assert requester.http.get("/transcode/jobs").status_code == 200
