import base64
import hmac
from dataclasses import dataclass

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from euterpe.crypto.handover import (
    SUITE,
    CannotOpen,
    MalformedPublicKey,
    credentials_info,
    new_private_key,
    open_with,
    public_key_text,
    read_public_key,
    seal_to,
)

JOB, ATTEMPT = "0199a7c4-5b1e-7000-8000-000000000001", "0199a7c4-5b1e-7000-8000-0000000000a1"
INFO = credentials_info(JOB, ATTEMPT, 3)
SECRET = b'{"storage": "AAEC"}'


def sealed_to(private_key: X25519PrivateKey, info: bytes = INFO) -> bytes:
    return seal_to(read_public_key(public_key_text(private_key)), SECRET, info)


# -- an independent implementation of RFC 9180: base mode, one message


@dataclass(frozen=True)
class Rfc9180:
    """DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM."""

    kem = b"KEM" + (0x0020).to_bytes(2, "big")
    hpke = b"HPKE" + b"".join(n.to_bytes(2, "big") for n in (0x0020, 0x0001, 0x0001))

    def extract(self, suite: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
        return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + ikm, "sha256")

    def expand(self, suite: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
        labeled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
        return hmac.digest(prk, labeled + b"\x01", "sha256")[:length]

    def open(self, sealed: bytes, private_key: X25519PrivateKey, info: bytes, aad: bytes = b"") -> bytes:
        enc, body = sealed[:32], sealed[32:]
        shared = private_key.exchange(X25519PublicKey.from_public_bytes(enc))
        context = enc + private_key.public_key().public_bytes_raw()
        prk = self.extract(self.kem, b"", b"eae_prk", shared)
        secret = self.expand(self.kem, prk, b"shared_secret", context, 32)
        schedule = b"\0" + self.extract(self.hpke, b"", b"psk_id_hash", b"")
        schedule += self.extract(self.hpke, b"", b"info_hash", info)
        prk = self.extract(self.hpke, secret, b"secret", b"")
        key = self.expand(self.hpke, prk, b"key", schedule, 16)
        nonce = self.expand(self.hpke, prk, b"base_nonce", schedule, 12)
        return AESGCM(key).decrypt(nonce, body, aad)


def test_the_independent_implementation_opens_the_vector_of_the_rfc() -> None:
    """The values are those of RFC 9180, A.1.1, sequence number 0."""
    private_key = X25519PrivateKey.from_private_bytes(
        bytes.fromhex("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8")
    )
    enc = bytes.fromhex("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431")
    body = bytes.fromhex(
        "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
    )
    opened = Rfc9180().open(enc + body, private_key, b"Ode on a Grecian Urn", b"Count-0")
    assert opened == b"Beauty is truth, truth beauty"


def test_a_sealed_secret_is_a_message_of_the_rfc() -> None:
    """Third-party workers open the secret with any library that implements RFC 9180."""
    private_key = new_private_key()
    assert Rfc9180().open(sealed_to(private_key), private_key, INFO) == SECRET
    assert SUITE == "hpke-x25519-hkdf-sha256-aes-128-gcm"


# -- seal and open


@given(st.binary(max_size=2000), st.integers(1, 2**31))
def test_what_was_sealed_can_be_opened(secret: bytes, version: int) -> None:
    private_key, info = new_private_key(), credentials_info(JOB, ATTEMPT, version)
    assert open_with(private_key, seal_to(private_key.public_key(), secret, info), info) == secret


def test_each_sealing_differs() -> None:
    private_key = new_private_key()
    assert sealed_to(private_key) != sealed_to(private_key)


def test_another_key_opens_nothing() -> None:
    with pytest.raises(CannotOpen):
        open_with(new_private_key(), sealed_to(new_private_key()), INFO)


@pytest.mark.parametrize(
    "other",
    [credentials_info(ATTEMPT, ATTEMPT, 3), credentials_info(JOB, JOB, 3), credentials_info(JOB, ATTEMPT, 4)],
    ids=["job", "attempt", "version"],
)
def test_a_secret_of_another_job_attempt_or_version_is_not_opened(other: bytes) -> None:
    private_key = new_private_key()
    with pytest.raises(CannotOpen):
        open_with(private_key, sealed_to(private_key, other), INFO)


@given(st.data())
def test_no_changed_byte_is_accepted(data: st.DataObject) -> None:
    private_key = new_private_key()
    sealed = bytearray(sealed_to(private_key))
    # X25519 ignores the highest bit of the encapsulated key, but the key schedule of HPKE includes it.
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CannotOpen):
        open_with(private_key, bytes(sealed), INFO)


@pytest.mark.parametrize("length", [0, 31, 32, 47])
def test_a_truncated_secret_is_refused(length: int) -> None:
    private_key = new_private_key()
    with pytest.raises(CannotOpen):
        open_with(private_key, sealed_to(private_key)[:length], INFO)


def test_the_info_has_the_form_that_the_contract_states() -> None:
    assert credentials_info("j", "a", 3) == b"euterpe-worker-cred-v1\0j\0a\x003"


# -- public keys


@given(st.binary(max_size=64).filter(lambda raw: len(raw) != 32))
def test_a_public_key_of_another_length_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedPublicKey):
        read_public_key(base64.urlsafe_b64encode(raw).decode())


@pytest.mark.parametrize("text", ["", "ü" * 43, "=" * 43, "A" * 42, "A" * 44, "*" * 43])
def test_a_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(MalformedPublicKey):
        read_public_key(text)


def test_standard_base64_with_padding_is_read_too() -> None:
    private_key = X25519PrivateKey.from_private_bytes(bytes(range(32)))
    text = base64.b64encode(private_key.public_key().public_bytes_raw()).decode()
    assert read_public_key(text) == read_public_key(public_key_text(private_key))


def test_a_public_key_without_secrecy_is_refused() -> None:
    """The all-zero public key is a point of low order, with which anyone could derive the key."""
    with pytest.raises(MalformedPublicKey):
        seal_to(X25519PublicKey.from_public_bytes(bytes(32)), SECRET, INFO)


def test_no_error_shows_its_cause() -> None:
    with pytest.raises(CannotOpen) as error:
        open_with(new_private_key(), sealed_to(new_private_key()), INFO)
    assert not isinstance(error.value.__cause__, InvalidTag)
