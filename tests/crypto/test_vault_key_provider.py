"""Vault's transit engine as the key provider: versions, DEKs in memory, and failures of Vault."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from euterpe.crypto.envelope import rewrap, seal, unseal, webhook_secret_context
from euterpe.crypto.errors import CannotDecrypt, KeyProviderUnavailable, UnboundKeys, UnknownKek
from euterpe.crypto.key_provider import self_test
from euterpe.crypto.vault_client import VaultTransit
from euterpe.crypto.vault_key_provider import VaultKeyProvider
from tests.net.servers import Authority
from tests.vault_server import TIMEOUT_S, VaultServer, errors

CONTEXT = webhook_secret_context("r1", "s1")
V1, V2 = "vault:transit/euterpe:v1", "vault:transit/euterpe:v2"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[VaultServer]:
    with VaultServer(tmp_path) as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


def decrypts(vault: VaultServer) -> int:
    return sum("/decrypt/" in call for call in vault.calls)


def test_the_dek_is_stored_as_vaults_ciphertext(vault: VaultServer) -> None:
    sealed = seal(b"secret", CONTEXT, vault.provider())
    assert sealed.kek_id == V1
    assert re.fullmatch(rb"vault:v1:[A-Za-z0-9+/=]+", sealed.dek_wrapped)
    assert vault.calls == ["GET /v1/transit/keys/euterpe"] * 2 + ["POST /v1/transit/encrypt/euterpe"]


def test_a_mount_with_a_path_and_a_namespace_are_used(tmp_path: Path) -> None:
    with VaultServer(tmp_path, mount="team/transit", key="media.keys", namespace="admin/tv") as vault:
        provider = vault.provider()
        assert provider.ids == ("vault:team/transit/media.keys:v1",)
        self_test(provider)


def test_tls_with_a_ca_of_ones_own(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    (ca_file := tmp_path / "ca.pem").write_text(authority.pem)
    with VaultServer(tmp_path, tls=authority.server_context(["localhost"])) as vault:
        self_test(VaultKeyProvider(vault.transit(ca_file=ca_file), "euterpe"))
        with pytest.raises(KeyProviderUnavailable, match="ConnectError"):
            self_test(VaultKeyProvider(vault.transit(), "euterpe"))


def test_a_rotation_takes_effect_when_the_versions_are_read_again(vault: VaultServer, clock: Clock) -> None:
    provider = vault.provider(versions_valid_s=30.0, clock=clock)
    assert provider.active_id == V1
    vault.rotate()
    assert provider.active_id == V1
    clock.now += 30.0
    assert (provider.active_id, provider.ids) == (V2, (V2, V1))


def test_a_version_that_is_newer_than_known_is_looked_up(vault: VaultServer, clock: Clock) -> None:
    """Another process may notice the rotation earlier and seal a secret under the new version."""
    provider = vault.provider(versions_valid_s=30.0, clock=clock)
    assert provider.active_id == V1
    vault.rotate()
    sealed = seal(b"secret", CONTEXT, vault.provider())
    assert sealed.kek_id == V2
    assert unseal(sealed, CONTEXT, provider) == b"secret"


def test_a_version_that_vault_no_longer_decrypts_is_an_unknown_kek(vault: VaultServer, clock: Clock) -> None:
    provider = vault.provider(versions_valid_s=30.0, clock=clock)
    old = seal(b"secret", CONTEXT, provider)
    vault.rotate()
    moved = rewrap(old, CONTEXT, vault.provider())
    vault.min_decryption_version = 2
    for reader in (provider, vault.provider()):  # `provider` has not read the versions since the rotation
        with pytest.raises(UnknownKek, match="min_decryption_version"):
            unseal(old, CONTEXT, reader)
    assert vault.provider().ids == (V2,)
    assert unseal(moved, CONTEXT, vault.provider()) == b"secret"


BAD_VERSIONS = ("", "0", "-1", "²", "1 ", "9" * 5000)


@pytest.mark.parametrize(
    "kek_id",
    ["k1", "vault:transit/other:v1", *(f"vault:transit/euterpe:v{end}" for end in BAD_VERSIONS)],
    ids=str.__len__,
)
def test_an_id_that_is_no_version_of_the_key_is_unknown(vault: VaultServer, kek_id: str) -> None:
    with pytest.raises(UnknownKek):
        vault.provider().unwrap(kek_id, b"vault:v1:AAAA", b"")


def test_the_stored_version_must_be_that_of_the_kek(vault: VaultServer) -> None:
    provider = vault.provider()
    wrapped = provider.wrap(V1, bytes(32), b"aad")
    vault.rotate()
    with pytest.raises(CannotDecrypt):
        provider.unwrap(V2, wrapped, b"aad")
    with pytest.raises(CannotDecrypt):
        provider.unwrap(V1, b"vault:v1:" + "é".encode(), b"aad")


def test_a_dek_is_asked_for_once_while_it_is_remembered(vault: VaultServer, clock: Clock) -> None:
    provider = vault.provider(dek_valid_s=60.0, clock=clock)
    sealed = seal(b"secret", CONTEXT, provider)
    for _ in range(5):
        assert unseal(sealed, CONTEXT, provider) == b"secret"
    assert decrypts(vault) == 1
    vault.is_sealed = True
    assert unseal(sealed, CONTEXT, provider) == b"secret", "known secrets must open in an outage of Vault"
    vault.is_sealed = False
    with pytest.raises(CannotDecrypt):
        unseal(sealed, webhook_secret_context("r2", "s1"), provider)
    clock.now += 60.0
    vault.is_sealed = True
    with pytest.raises(KeyProviderUnavailable):
        unseal(sealed, CONTEXT, provider)


def test_the_deks_in_memory_are_bounded_and_the_oldest_goes(vault: VaultServer, clock: Clock) -> None:
    provider = vault.provider(dek_valid_s=60.0, most_deks=2, clock=clock)
    sealed = [seal(b"secret", CONTEXT, provider) for _ in range(3)]
    for one in sealed:
        unseal(one, CONTEXT, provider)
    unseal(sealed[2], CONTEXT, provider)
    unseal(sealed[1], CONTEXT, provider)
    assert decrypts(vault) == 3
    unseal(sealed[0], CONTEXT, provider)
    assert decrypts(vault) == 4


def test_old_vaults_that_ignore_the_associated_data_are_refused(vault: VaultServer) -> None:
    vault.ignores_associated_data = True
    with pytest.raises(UnboundKeys):
        self_test(vault.provider())


OUTAGES = {
    "sealed": (errors(503, "Vault is sealed"), "503: Vault is sealed"),
    "rate limit": (errors(429, "request path quota exceeded"), "429: request path"),
    "replica": (errors(412, "required index state not present"), "412"),
    "broken": (errors(500), "500: no reason given"),
    "no such key": (errors(404), "EUTERPE_VAULT_KEY"),
    "no right": (errors(403, "permission denied"), "renew the token"),
    "redirect": ((307, {}), "active node"),
    "not Vault": ((200, {"hello": "world"}), "EUTERPE_VAULT_URL"),
    "not a key": ((200, {"data": {"latest_version": "1"}}), "does not describe"),
    "bad request": (errors(400, "what?"), "what\\?"),
}


@pytest.mark.parametrize(("answer", "says"), OUTAGES.values(), ids=OUTAGES)
def test_every_failure_of_vault_is_an_outage_that_says_what_to_do(
    vault: VaultServer, answer: tuple[int, dict[str, object]], says: str
) -> None:
    provider = vault.provider()
    vault.answers = [answer]
    with pytest.raises(KeyProviderUnavailable, match=says) as away:
        provider.active_id  # noqa: B018  the property asks Vault
    assert vault.token not in str(away.value)
    self_test(provider)


@pytest.mark.parametrize("status", [400, 403, 404, 429, 500, 503])
def test_an_encryption_that_fails_is_an_outage(vault: VaultServer, status: int) -> None:
    provider = vault.provider(versions_valid_s=60.0)
    assert provider.active_id == V1
    vault.answers = [errors(status, "no")]
    with pytest.raises(KeyProviderUnavailable):
        provider.wrap(V1, bytes(32), b"")
    assert provider.wrap(V1, bytes(32), b"")


@pytest.mark.parametrize("status", [403, 404, 429, 500, 503])
def test_a_decryption_that_fails_for_now_does_not_condemn_the_secret(vault: VaultServer, status: int) -> None:
    provider = vault.provider(versions_valid_s=60.0)
    sealed = seal(b"secret", CONTEXT, provider)
    vault.answers = [errors(status, "no")]
    with pytest.raises(KeyProviderUnavailable):
        unseal(sealed, CONTEXT, provider)
    assert unseal(sealed, CONTEXT, provider) == b"secret"


def test_one_refusal_to_decrypt_does_not_condemn_the_secret(vault: VaultServer) -> None:
    """A proxy or a starting Vault may answer 400 once, so the provider must not raise `CannotDecrypt` yet."""
    provider = vault.provider(versions_valid_s=60.0)
    sealed = seal(b"secret", CONTEXT, provider)
    vault.answers = [errors(400, "missing client token")]
    assert unseal(sealed, CONTEXT, provider) == b"secret"


ODD_PLAINTEXTS = {
    "none": {},
    "null": {"plaintext": None},
    "a number": {"plaintext": 5},
    "empty": {"plaintext": ""},
    "too short": {"plaintext": "c2hvcnQ="},
    "not base64": {"plaintext": "****"},
    "not ASCII": {"plaintext": "é"},
}


@pytest.mark.parametrize("data", ODD_PLAINTEXTS.values(), ids=ODD_PLAINTEXTS)
def test_an_odd_plaintext_does_not_condemn_the_secret(vault: VaultServer, data: dict[str, object]) -> None:
    provider = vault.provider(versions_valid_s=60.0)
    sealed = seal(b"secret", CONTEXT, provider)
    vault.answers = [(200, {"data": data})]
    with pytest.raises(KeyProviderUnavailable):
        unseal(sealed, CONTEXT, provider)
    assert unseal(sealed, CONTEXT, provider) == b"secret"


@pytest.mark.parametrize("data", [{}, {"ciphertext": None}, {"ciphertext": "vault:v1:é"}])
def test_an_odd_ciphertext_is_an_outage(vault: VaultServer, data: dict[str, object]) -> None:
    provider = vault.provider(versions_valid_s=60.0)
    assert provider.active_id == V1
    vault.answers = [(200, {"data": data})]
    with pytest.raises(KeyProviderUnavailable):
        seal(b"secret", CONTEXT, provider)


def test_a_call_without_an_answer_is_repeated(vault: VaultServer) -> None:
    vault.answers = [errors(503), errors(500), errors(429)]
    transit = vault.transit(retry_s=TIMEOUT_S)
    assert transit.versions("euterpe").latest == 1
    assert len(vault.calls) == 4


@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_refusal_is_not_repeated(vault: VaultServer, status: int) -> None:
    vault.answers = [errors(status)]
    with pytest.raises(KeyProviderUnavailable):
        VaultKeyProvider(vault.transit(retry_s=TIMEOUT_S), "euterpe").wrap(V1, bytes(32), b"")
    assert len(vault.calls) == 1


def test_after_an_outage_calls_fail_at_once_for_a_while(vault: VaultServer, clock: Clock) -> None:
    transit = vault.transit(rest_s=1.0, clock=clock)
    vault.is_sealed = True
    for _ in range(5):
        with pytest.raises(KeyProviderUnavailable, match="sealed"):
            transit.versions("euterpe")
    assert len(vault.calls) == 1
    vault.is_sealed = False
    clock.now += 1.0
    assert transit.versions("euterpe").latest == 1


def test_a_vault_that_is_gone_or_hangs_is_an_outage(vault: VaultServer, tmp_path: Path) -> None:
    gone = VaultTransit("http://127.0.0.1:1", vault.token_file, retry_s=0.0)
    with pytest.raises(KeyProviderUnavailable, match=r"127\.0\.0\.1:1 cannot be reached: ConnectError"):
        gone.versions("euterpe")
    with vault.held(), pytest.raises(KeyProviderUnavailable, match="ReadTimeout"):
        vault.transit(answer_s=0.05).versions("euterpe")
    with pytest.raises(KeyProviderUnavailable, match="CA file"):
        vault.transit(ca_file=tmp_path / "none.pem")


def test_the_token_is_read_again_for_each_call(vault: VaultServer) -> None:
    provider = vault.provider()
    self_test(provider)
    vault.issue_token("second")
    self_test(provider)
    vault.token = "revoked"
    with pytest.raises(KeyProviderUnavailable, match="renew the token"):
        self_test(provider)
    vault.token_file.unlink()
    with pytest.raises(KeyProviderUnavailable, match="EUTERPE_VAULT_TOKEN_FILE"):
        self_test(provider)


def test_a_token_that_is_replaced_during_a_call_costs_no_error(vault: VaultServer) -> None:
    transit = vault.transit(retry_s=TIMEOUT_S)
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.append(transit.versions("euterpe").latest))
    with vault.held():
        reader.start()
        vault.wait_for_waiting()
        vault.issue_token("second")
    reader.join()
    assert found == [1]


@pytest.mark.parametrize("token", ["two\nlines", "é", "\0"])
def test_a_malformed_token_is_not_quoted(vault: VaultServer, token: str) -> None:
    vault.token_file.write_text(token)
    with pytest.raises(KeyProviderUnavailable) as refused:
        self_test(vault.provider())
    assert token not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_token_file_is_not_sent(vault: VaultServer, text: str) -> None:
    """Vault Agent may be about to write the token file.

    Vault answers 400 to an empty token, which is also its answer to a bad ciphertext.
    """
    vault.token_file.write_text(text)
    with pytest.raises(KeyProviderUnavailable, match=r"is empty.*Vault Agent"):
        vault.transit().versions("euterpe")
    assert vault.calls == []


def test_many_threads_share_a_provider(vault: VaultServer) -> None:
    provider = vault.provider(versions_valid_s=60.0, dek_valid_s=60.0)
    failures: list[BaseException] = []

    def seal_and_open() -> None:
        try:
            for number in range(20):
                secret = str(number).encode()
                assert unseal(seal(secret, CONTEXT, provider), CONTEXT, provider) == secret
        except BaseException as failure:  # noqa: BLE001  the test raises it
            failures.append(failure)

    threads = [threading.Thread(target=seal_and_open) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
