"""Who is let in, and for how long that is remembered."""

import asyncio
from collections.abc import Callable

import pytest
from starlette.requests import Request

from euterpe.api.auth import REMEMBERED_S, Door
from euterpe.api.calls import Calls
from euterpe.api.exchange import Exchange
from euterpe.crypto import apikeys
from euterpe.domain.scopes import Scope
from euterpe.store.errors import Unauthorized
from euterpe.store.requesters import Principal
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


class Keys:
    """Counts how often the database is asked."""

    def __init__(self) -> None:
        self.asked, self.now, self.valid = 0, 0.0, True

    def authenticate(self, key: str) -> Principal:
        self.asked += 1
        if not self.valid:
            raise Unauthorized
        return Principal(f"owner of {key}", frozenset({Scope.READ}))


@pytest.fixture
def keys() -> Keys:
    return Keys()


def admitting(keys: Keys, visit: Callable[[Door], object]) -> None:
    calls = Calls()
    try:
        asyncio.run(visit(Door(keys.authenticate, calls, lambda: keys.now)))  # type: ignore[arg-type]
    finally:
        calls.stop()


def request(key: str = "k") -> Request:
    headers = [(b"x-api-key", key.encode())]
    return Request({"type": "http", "headers": headers, "euterpe.exchange": Exchange("id")})


def test_a_busy_key_is_looked_up_once_in_two_seconds(keys: Keys) -> None:
    async def visit(door: Door) -> None:
        for _ in range(10):
            await door.admit(request(), Scope.READ)
        assert keys.asked == 1
        keys.now += REMEMBERED_S
        await door.admit(request(), Scope.READ)
        assert keys.asked == 2

    admitting(keys, visit)


def test_all_who_come_at_once_with_a_key_share_one_look(keys: Keys) -> None:
    async def visit(door: Door) -> None:
        admitted = await asyncio.gather(*(door.admit(request(), Scope.READ) for _ in range(50)))
        assert {principal.requester_id for principal in admitted} == {"owner of k"}
        assert keys.asked == 1

    admitting(keys, visit)


def test_a_refusal_is_not_remembered_and_an_old_success_is_not_trusted(keys: Keys) -> None:
    async def visit(door: Door) -> None:
        await door.admit(request(), Scope.READ)
        keys.valid, keys.now = False, REMEMBERED_S
        for _ in range(2):
            with pytest.raises(Unauthorized):
                await door.admit(request(), Scope.READ)
        keys.valid = True
        await door.admit(request(), Scope.READ)
        assert keys.asked == 4

    admitting(keys, visit)


def test_a_flood_of_keys_is_not_kept(keys: Keys) -> None:
    async def visit(door: Door) -> None:
        for number in range(5_000):
            await door.admit(request(f"k{number}"), Scope.READ)
        await door.admit(request("k4999"), Scope.READ)
        assert keys.asked == 5_000
        await door.admit(request("k0"), Scope.READ)
        assert keys.asked == 5_001

    admitting(keys, visit)
