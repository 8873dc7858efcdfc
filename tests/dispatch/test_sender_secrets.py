import pytest

from euterpe.dispatch.sender import NoWebhookSecret, SigningSecrets
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def secrets(store: Store, clock: Clock) -> SigningSecrets:
    return SigningSecrets(store.requesters, clock=clock)


def test_a_new_secret_signs_beside_the_old_one_within_seconds(
    store: Store, requester: NewRequester, secrets: SigningSecrets, clock: Clock
) -> None:
    assert secrets.for_requester(requester.requester_id) == [requester.webhook_secret]
    new = store.requesters.rotate_secret(requester.requester_id, old_valid_ms=60_000)
    assert secrets.for_requester(requester.requester_id) == [requester.webhook_secret], "it is still cached"
    clock.now += 3
    assert secrets.for_requester(requester.requester_id) == [new, requester.webhook_secret]


def test_a_secret_that_has_expired_signs_no_more(
    store: Store, requester: NewRequester, secrets: SigningSecrets
) -> None:
    new = store.requesters.rotate_secret(requester.requester_id, old_valid_ms=0)
    assert secrets.for_requester(requester.requester_id) == [new]


def test_a_requester_without_a_secret_is_an_error_that_names_the_remedy(secrets: SigningSecrets) -> None:
    for _ in range(2):
        with pytest.raises(NoWebhookSecret, match="stranger has no valid secret; run"):
            secrets.for_requester("stranger")


def test_the_cache_of_secrets_is_bounded(store: Store, requester: NewRequester, clock: Clock) -> None:
    secrets = SigningSecrets(store.requesters, capacity=1, clock=clock)
    other = store.requesters.create("other")
    secrets.for_requester(requester.requester_id)
    secrets.for_requester(other.requester_id)
    new = store.requesters.rotate_secret(requester.requester_id, old_valid_ms=0)
    assert secrets.for_requester(requester.requester_id) == [new], "the old secret is not cached any more"
