"""Requesters: API keys, webhook secrets, rotation and names."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from euterpe.crypto import apikeys
from euterpe.crypto.errors import MalformedApiKey
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.scopes import Scope
from euterpe.store.errors import Conflict, NotFound, Unauthorized
from euterpe.store.store import Store
from euterpe.store.tables import requesters
from tests.clock import SettableClock


def test_a_key_identifies_its_requester_and_scopes(store: Store) -> None:
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
    assert [(row.name, row.valid_keys) for row in store.requesters.all()] == [
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


def test_an_id_is_never_taken_for_a_name(store: Store) -> None:
    first = store.requesters.create("first").requester_id
    with pytest.raises(InvalidSpec, match="id"):
        store.requesters.create(first)
    other = store.requesters.create("other").requester_id
    with store.database.transaction() as connection:  # an earlier version allowed this name
        renamed = sa.update(requesters).where(requesters.c.requester_id == other).values(name=first)
        connection.execute(renamed)
    assert store.requesters.find(first) == first


def test_no_more_secrets_are_valid_than_a_webhook_can_be_signed_with(store: Store) -> None:
    requester_id = store.requesters.create("studio").requester_id
    for _ in range(9):
        store.requesters.rotate_secret(requester_id, old_valid_ms=60_000)
    with pytest.raises(Conflict, match="10 webhook secrets"):
        store.requesters.rotate_secret(requester_id, old_valid_ms=60_000)
    assert len(store.requesters.webhook_secrets(requester_id)) == 10
    newest = store.requesters.rotate_secret(requester_id, old_valid_ms=0)
    assert store.requesters.webhook_secrets(requester_id)[0] == newest


def test_of_many_keys_only_the_valid_ones_keep_their_owners(store: Store, clock: SettableClock) -> None:
    kept, disabled, rotated = (store.requesters.create(name) for name in ("kept", "disabled", "rotated"))
    keys = [apikeys.hashed(apikeys.parse(one.api_key)) for one in (kept, disabled, rotated)]
    assert store.requesters.still_valid(keys) == {
        key: store.requesters.authenticate(one.api_key)
        for key, one in zip(keys, (kept, disabled, rotated), strict=True)
    }
    store.requesters.disable(disabled.requester_id)
    store.requesters.rotate_key(rotated.requester_id, old_valid_ms=1_000)
    clock.advance(1_001)
    assert list(store.requesters.still_valid(keys)) == keys[:1]
    forged = replace(keys[0], secret_hash="0" * 64)
    assert store.requesters.still_valid([forged]) == store.requesters.still_valid([]) == {}


def test_a_disabled_requester_has_no_valid_keys_and_gets_no_new_ones(store: Store) -> None:
    requester_id = store.requesters.create("studio").requester_id
    store.requesters.disable(requester_id)
    assert [row.valid_keys for row in store.requesters.all()] == [0]
    for rotate in (store.requesters.rotate_key, store.requesters.rotate_secret):
        with pytest.raises(Conflict, match="disabled"):
            rotate(requester_id, old_valid_ms=0)
