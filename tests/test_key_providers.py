"""The checks of `tests/key_providers.py`, on which every test with the fixture `ring` relies."""

import asyncio

import pytest

from euterpe.crypto.envelope import seal, unseal, webhook_secret_context
from euterpe.store.store import Store
from tests.key_providers import WatchedKeyProvider, checked_ring

CONTEXT = webhook_secret_context("r1", "s1")


@pytest.mark.parametrize("provider", [checked_ring(), WatchedKeyProvider(checked_ring())])
def test_a_call_on_an_event_loop_fails(provider: WatchedKeyProvider) -> None:
    sealed = seal(b"secret", CONTEXT, provider)

    async def on_the_loop() -> None:
        with pytest.raises(AssertionError, match="event loop"):
            unseal(sealed, CONTEXT, provider)
        assert await asyncio.to_thread(unseal, sealed, CONTEXT, provider) == b"secret"

    asyncio.run(on_the_loop())
    assert unseal(sealed, CONTEXT, provider) == b"secret"


@pytest.mark.parametrize("provider", [checked_ring(), WatchedKeyProvider(checked_ring())])
def test_a_call_inside_a_transaction_fails(store: Store, provider: WatchedKeyProvider) -> None:
    sealed = seal(b"secret", CONTEXT, provider)
    with store.database.snapshot(), pytest.raises(AssertionError, match="inside a database transaction"):
        unseal(sealed, CONTEXT, provider)
    with store.database.transaction(), pytest.raises(AssertionError, match="inside a database transaction"):
        seal(b"secret", CONTEXT, provider)
    assert unseal(sealed, CONTEXT, provider) == b"secret"
