import pytest

from euterpe.crypto import apikeys
from euterpe.crypto.errors import MalformedApiKey
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.scopes import Scope
from euterpe.store.clock import SettableClock
from euterpe.store.errors import Conflict, NotFound, Unauthorized
from euterpe.store.store import Store


def test_a_key_tells_who_asks_and_what_they_may_do(store: Store) -> None:
    made = store.requesters.create("studio")
    principal = store.requesters.authenticate(made.api_key)
    assert principal.requester_id == made.requester_id
    assert principal.scopes == {Scope.WRITE, Scope.READ}


def test_scopes_survive_a_rotation(store: Store) -> None:
    made = store.requesters.create("ops", [Scope.ADMIN])
    new_key = store.requesters.rotate_key(made.requester_id, old_valid_ms=0)
    assert store.requesters.authenticate(new_key).scopes == {Scope.ADMIN}


def test_every_wrong_key_gets_the_same_answer(store: Store, clock: SettableClock) -> None:
    disabled = store.requesters.create("gone")
    store.requesters.disable(disabled.requester_id)
    rotated = store.requesters.create("rotated")
    store.requesters.rotate_key(rotated.requester_id, old_valid_ms=1_000)
    clock.advance(1_000)
    known = apikeys.parse(rotated.api_key)
    text = f"eut_{known.key_id}_{'x' * 30}"
    forged = text + apikeys._checksum(text)
    answers = set()
    for key in (disabled.api_key, rotated.api_key, forged, apikeys.mint().plaintext):
        with pytest.raises(Unauthorized) as refused:
            store.requesters.authenticate(key)
        answers.add(str(refused.value))
    assert len(answers) == 1


def test_a_typo_is_found_without_the_database(store: Store) -> None:
    made = store.requesters.create("studio")
    with pytest.raises(MalformedApiKey):
        store.requesters.authenticate(made.api_key[:-1] + ("0" if made.api_key[-1] != "0" else "1"))


def test_rotation_keeps_the_old_ones_for_the_stated_window(store: Store, clock: SettableClock) -> None:
    made = store.requesters.create("studio")
    clock.advance(1)
    key = store.requesters.rotate_key(made.requester_id, old_valid_ms=1_000)
    secret = store.requesters.rotate_secret(made.requester_id, old_valid_ms=1_000)
    for valid in (made.api_key, key):
        assert store.requesters.authenticate(valid).requester_id == made.requester_id
    assert store.requesters.webhook_secrets(made.requester_id) == [secret, made.webhook_secret]
    clock.advance(1_000)
    assert store.requesters.webhook_secrets(made.requester_id) == [secret]
    with pytest.raises(Unauthorized):
        store.requesters.authenticate(made.api_key)


def test_a_second_rotation_does_not_prolong_the_first(store: Store, clock: SettableClock) -> None:
    made = store.requesters.create("studio")
    store.requesters.rotate_secret(made.requester_id, old_valid_ms=1_000)
    store.requesters.rotate_secret(made.requester_id, old_valid_ms=90_000)
    clock.advance(1_000)
    assert made.webhook_secret not in store.requesters.webhook_secrets(made.requester_id)


def test_names_are_taken_once_and_must_be_legible(store: Store) -> None:
    store.requesters.create("studio")
    with pytest.raises(Conflict, match="studio"):
        store.requesters.create("studio")
    for bad in ("", "a\0b", "a\nb", "x" * 101, " a"):
        with pytest.raises(InvalidSpec, match="name"):
            store.requesters.create(bad)


def test_requesters_are_found_by_name_or_id_and_listed(store: Store) -> None:
    made = store.requesters.create("studio")
    store.requesters.create("archive")
    assert store.requesters.find("studio") == store.requesters.find(made.requester_id) == made.requester_id
    assert [(row["name"], row["valid_keys"]) for row in store.requesters.all()] == [
        ("archive", 1),
        ("studio", 1),
    ]
    with pytest.raises(NotFound, match="nobody"):
        store.requesters.find("nobody")


def test_what_does_not_exist_cannot_be_rotated_or_disabled(store: Store) -> None:
    for action in (store.requesters.rotate_key, store.requesters.rotate_secret):
        with pytest.raises(NotFound):
            action("nobody", old_valid_ms=0)
    with pytest.raises(NotFound):
        store.requesters.disable("nobody")


def test_secrets_are_not_in_a_repr(store: Store) -> None:
    made = store.requesters.create("studio")
    assert made.api_key not in repr(made)
    assert made.webhook_secret not in repr(made)
