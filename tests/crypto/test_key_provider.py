"""The conformance tests of `KeyProvider`, which every implementation must pass."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from euterpe.crypto.envelope import rewrap, seal, unseal, webhook_secret_context
from euterpe.crypto.errors import CannotDecrypt, UnboundKeys, UnknownKek
from euterpe.crypto.key_provider import JoinedKeyProviders, KeyProvider, self_test
from euterpe.crypto.keyfile import KeySet, activate_key, add_key
from euterpe.crypto.local_key_ring import FileKeyRing, LocalKeyRing
from tests.vault_server import VaultServer

CONTEXT = webhook_secret_context("r1", "s1")
DEK, AAD = bytes(range(32)), b"row 1"


class Rotatable:
    """A key provider with one KEK, and a function that rotates the KEK."""

    def __init__(self, provider: KeyProvider, rotate: Callable[[], KeyProvider]) -> None:
        self.provider, self._rotate = provider, rotate

    def rotated(self) -> KeyProvider:
        """Activate a new KEK. Return a provider that has both KEKs."""
        return self._rotate()


def in_memory(_: Path, __: ExitStack) -> Rotatable:
    keys = {"k1": os.urandom(32), "k2": os.urandom(32)}
    return Rotatable(
        LocalKeyRing(KeySet("a test", "k1", {"k1": keys["k1"]})),
        lambda: LocalKeyRing(KeySet("a test", "k2", keys)),
    )


def in_a_file(folder: Path, _: ExitStack) -> Rotatable:
    path = folder / "keks.json"
    add_key(path, "k1")
    ring = FileKeyRing(path)

    def rotate() -> KeyProvider:
        activate_key(path, add_key(path, "k2"))
        return ring

    return Rotatable(ring, rotate)


def in_vault(folder: Path, servers: ExitStack) -> Rotatable:
    vault = servers.enter_context(VaultServer(folder))
    provider = vault.provider()

    def rotate() -> KeyProvider:
        vault.rotate()
        return provider

    return Rotatable(provider, rotate)


def remembered_from_vault(folder: Path, servers: ExitStack) -> Rotatable:
    """Return a provider that keeps the DEKs and the versions from Vault in memory for an hour."""
    vault = servers.enter_context(VaultServer(folder))

    def rotate() -> KeyProvider:
        vault.rotate()
        return vault.provider(versions_valid_s=3600.0, dek_valid_s=3600.0)

    return Rotatable(vault.provider(versions_valid_s=3600.0, dek_valid_s=3600.0), rotate)


def joined(folder: Path, servers: ExitStack) -> Rotatable:
    new, old = in_vault(folder, servers), in_a_file(folder, servers).provider
    return Rotatable(JoinedKeyProviders(new.provider, old), lambda: JoinedKeyProviders(new.rotated(), old))


@pytest.fixture(
    params=[in_memory, in_a_file, in_vault, remembered_from_vault, joined], ids=lambda make: make.__name__
)
def rotatable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rotatable]:
    with ExitStack() as servers:
        yield request.param(tmp_path, servers)


@pytest.fixture
def provider(rotatable: Rotatable) -> KeyProvider:
    return rotatable.provider


def test_a_wrapped_key_is_unwrapped(provider: KeyProvider) -> None:
    wrapped = provider.wrap(provider.active_id, DEK, AAD)
    assert provider.unwrap(provider.active_id, wrapped, AAD) == DEK
    assert DEK not in wrapped
    self_test(provider)


def test_two_wraps_of_a_key_differ(provider: KeyProvider) -> None:
    assert provider.wrap(provider.active_id, DEK, AAD) != provider.wrap(provider.active_id, DEK, AAD)


def test_the_active_key_is_among_the_ids(provider: KeyProvider) -> None:
    assert provider.active_id in provider.ids
    assert len(set(provider.ids)) == len(provider.ids)


def test_other_aad_or_other_bytes_are_refused(provider: KeyProvider) -> None:
    kek_id = provider.active_id
    wrapped = provider.wrap(kek_id, DEK, AAD)
    changed = wrapped[:-1] + bytes([wrapped[-1] ^ 1])
    for other in (changed, wrapped[:-1], wrapped + b"\0", b"", b"garbage"):
        with pytest.raises(CannotDecrypt):
            provider.unwrap(kek_id, other, AAD)
    for aad in (b"row 2", b""):
        with pytest.raises(CannotDecrypt):
            provider.unwrap(kek_id, wrapped, aad)
    assert provider.unwrap(kek_id, wrapped, AAD) == DEK


@pytest.mark.parametrize("kek_id", ["k9", "", "vault:transit/none:v1", "vault:transit/euterpe:v99"])
def test_an_unknown_key_is_named(provider: KeyProvider, kek_id: str) -> None:
    wrapped = provider.wrap(provider.active_id, DEK, AAD)
    with pytest.raises(UnknownKek) as unknown:
        provider.wrap(kek_id, DEK, AAD)
    assert unknown.value.kek_id == kek_id
    with pytest.raises(UnknownKek):
        provider.unwrap(kek_id, wrapped, AAD)


def test_a_rotation_keeps_old_secrets_and_wraps_new_ones_anew(rotatable: Rotatable) -> None:
    before = seal(b"secret", CONTEXT, rotatable.provider)
    rotated = rotatable.rotated()
    assert rotated.active_id != before.kek_id
    assert {before.kek_id, rotated.active_id} <= set(rotated.ids)
    assert unseal(before, CONTEXT, rotated) == b"secret"
    after = rewrap(before, CONTEXT, rotated)
    assert (after.kek_id, after.ciphertext) == (rotated.active_id, before.ciphertext)
    assert unseal(after, CONTEXT, rotated) == b"secret"


def test_an_inactive_key_still_wraps_when_it_is_named(rotatable: Rotatable) -> None:
    """A caller reads the active KEK id, and then wraps a DEK.

    A rotation between these two calls must not cause an error.
    """
    named = rotatable.provider.active_id
    rotated = rotatable.rotated()
    assert rotated.unwrap(named, rotated.wrap(named, DEK, AAD), AAD) == DEK


def test_a_wrapped_key_belongs_to_its_kek(rotatable: Rotatable) -> None:
    named = rotatable.provider.active_id
    wrapped = rotatable.provider.wrap(named, DEK, AAD)
    rotated = rotatable.rotated()
    with pytest.raises(CannotDecrypt):
        rotated.unwrap(rotated.active_id, wrapped, AAD)


def test_joined_providers_unwrap_what_each_has_wrapped() -> None:
    old = LocalKeyRing(KeySet("a test", "old", {"old": b"o" * 32}))
    new = LocalKeyRing(KeySet("a test", "new", {"new": b"n" * 32}))
    sealed = seal(b"secret", CONTEXT, old)
    both = JoinedKeyProviders(new, old)
    assert (both.active_id, both.ids) == ("new", ("new", "old"))
    assert unseal(sealed, CONTEXT, both) == b"secret"
    moved = rewrap(sealed, CONTEXT, both)
    assert unseal(moved, CONTEXT, new) == b"secret"


def test_a_proof_fails_for_a_provider_that_changes_keys() -> None:
    class Forgetful(LocalKeyRing):
        def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
            super().unwrap(kek_id, wrapped, aad)
            return bytes(32)

    with pytest.raises(CannotDecrypt):
        self_test(Forgetful(KeySet("a test", "k1", {"k1": b"1" * 32})))


def test_a_proof_fails_for_a_provider_that_checks_no_aad() -> None:
    class Unbound(LocalKeyRing):
        def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
            del aad
            return super().unwrap(kek_id, wrapped, b"")

        def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes:
            del aad
            return super().wrap(kek_id, dek, b"")

    with pytest.raises(UnboundKeys, match="associated data"):
        self_test(Unbound(KeySet("a test", "k1", {"k1": b"1" * 32})))
