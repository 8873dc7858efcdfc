"""Envelope encryption, compared with a second implementation that follows only the documented format."""

import hashlib
import hmac
import json
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from euterpe.crypto.envelope import (
    Context,
    Sealed,
    credentials_context,
    rewrap,
    seal,
    unseal,
    webhook_secret_context,
)
from euterpe.crypto.errors import CannotDecrypt, UnknownFormat, UnknownKek
from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.local_key_ring import LocalKeyRing

K1, K2 = bytes(range(32)), bytes(range(100, 132))
PLAINTEXT = b'{"type":"s3","secret_access_key":"hunter2"}'
CREDENTIALS = credentials_context("job-1", "req-1", 3)
HOOK = webhook_secret_context("req-1", "sec-1")


class Countdown:
    """A predictable source of randomness: bytes 255, 254, …"""

    def __init__(self) -> None:
        self.next = 255

    def __call__(self, length: int) -> bytes:
        drawn = bytes((self.next - i) % 256 for i in range(length))
        self.next -= length
        return drawn


def ring(active: str = "k1", **keys: bytes) -> LocalKeyRing:
    return LocalKeyRing(KeySet("a test", active, keys or {"k1": K1, "k2": K2}))


def seal_predictably(context: Context) -> Sealed:
    random = Countdown()
    return seal(
        PLAINTEXT, context, LocalKeyRing(KeySet("a test", "k1", {"k1": K1}), random=random), random=random
    )


def hkdf_sha512(key: bytes, salt: bytes, info: bytes) -> bytes:
    """Derive 32 bytes by RFC 5869. One block is enough, because SHA-512 yields 64 bytes."""
    extracted = hmac.new(salt, key, hashlib.sha512).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha512).digest()[:32]


def aad_of(label: bytes, fields: dict[str, str]) -> bytes:
    encoded = label + len(fields).to_bytes(2, "big")
    for key in sorted(fields):
        for text in (key.encode(), fields[key].encode()):
            encoded += len(text).to_bytes(2, "big") + text
    return encoded


def expected_bytes(label: bytes, fields: dict[str, str], dek: bytes, mid: bytes) -> tuple[bytes, bytes]:
    """Return the documented ciphertext and wrapped DEK. `Countdown` yields `dek`, `mid`, then the nonces."""
    random = Countdown()
    assert (random(32), random(32)) == (dek, mid)
    nonce, wrap_nonce = random(12), random(12)
    commitment = hkdf_sha512(dek, mid, b"EUTERPE/v1/COMMITKEY")
    key = hkdf_sha512(dek, mid, b"EUTERPE/v1/DERIVEKEY")
    body = AESGCM(key).encrypt(nonce, PLAINTEXT, aad_of(label, fields) + mid + commitment)
    wrap_aad = aad_of(b"euterpe-dek-v1\0", {**fields, "kek_id": "k1"})
    return mid + commitment + nonce + body, wrap_nonce + AESGCM(K1).encrypt(wrap_nonce, dek, wrap_aad)


DEK, MID = bytes(range(255, 223, -1)), bytes(range(223, 191, -1))
CREDENTIAL_FIELDS = {"job_id": "job-1", "requester_id": "req-1", "credential_version": "3"}
HOOK_FIELDS = {"requester_id": "req-1", "secret_id": "sec-1"}


@pytest.mark.parametrize(
    ("context", "label", "fields"),
    [
        (CREDENTIALS, b"euterpe-cred-v1\0", CREDENTIAL_FIELDS),
        (HOOK, b"euterpe-hook-v1\0", HOOK_FIELDS),
    ],
    ids=["credentials", "webhook secret"],
)
def test_the_bytes_are_as_documented(context: Context, label: bytes, fields: dict[str, str]) -> None:
    sealed = seal_predictably(context)
    assert (sealed.ciphertext, sealed.dek_wrapped) == expected_bytes(label, fields, DEK, MID)
    assert (sealed.kek_id, sealed.version) == ("k1", 1)


def test_the_bytes_never_change() -> None:
    """Rows that this release stores must decrypt in every later release."""
    frozen = Sealed(
        ciphertext=bytes.fromhex(
            "dfdedddcdbdad9d8d7d6d5d4d3d2d1d0cfcecdcccbcac9c8c7c6c5c4c3c2c1c029781ce6f247503d"
            "4f4ad20ff7925869e61ea9fd024be4d485341589d1a60af5bfbebdbcbbbab9b8b7b6b5b4ad296530"
            "999e7b7434fbbe8871754785d0d62cb99a977b25c77fc93ffe8a76d648bfe02775fde62d0c98bdb0"
            "d3f77189c7213220e94fd0959b1417"
        ),
        dek_wrapped=bytes.fromhex(
            "b3b2b1b0afaeadacabaaa9a8ad9c774f2c1a2433cb5ae2208734ab7f4eb304f43db4afb1ecd2277e"
            "03ae0c23bc78ea6daee352881cfdad0c253da049"
        ),
        kek_id="k1",
        version=1,
    )
    assert seal_predictably(CREDENTIALS) == frozen
    assert unseal(frozen, CREDENTIALS, ring()) == PLAINTEXT


def test_every_secret_gets_its_own_key_and_nonces() -> None:
    sealed = [seal(b"", HOOK, ring()) for _ in range(20)]
    assert len({s.ciphertext[:32] for s in sealed}) == 20
    assert len({s.ciphertext[64:76] for s in sealed}) == 20
    assert len({s.dek_wrapped for s in sealed}) == 20


@given(plaintext=st.binary(max_size=300), job=st.text(max_size=20), requester=st.text(max_size=20))
def test_what_is_sealed_is_unsealed(plaintext: bytes, job: str, requester: str) -> None:
    context = credentials_context(job, requester, 1)
    assert unseal(seal(plaintext, context, ring()), context, ring()) == plaintext


def bit_flips(data: bytes) -> list[bytes]:
    return [
        data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        for at in range(len(data))
        for bit in range(8)
    ]


def corrupted(data: bytes) -> list[bytes]:
    """Return damaged copies: one bit flipped, cut to a shorter length, or one byte added at an end."""
    return [*bit_flips(data), *(data[:length] for length in range(len(data))), data + b"\0", b"\0" + data]


def refused(sealed: Sealed, context: Context) -> bool:
    with pytest.raises(CannotDecrypt) as failed:
        unseal(sealed, context, ring())
    return str(failed.value) == str(CannotDecrypt())


def test_no_changed_ciphertext_opens() -> None:
    sealed = seal(PLAINTEXT, CREDENTIALS, ring())
    assert all(refused(replace(sealed, ciphertext=c), CREDENTIALS) for c in corrupted(sealed.ciphertext))


def test_no_changed_wrapped_key_opens() -> None:
    sealed = seal(PLAINTEXT, CREDENTIALS, ring())
    assert all(refused(replace(sealed, dek_wrapped=w), CREDENTIALS) for w in corrupted(sealed.dek_wrapped))


def test_a_false_commitment_is_refused_even_under_a_true_tag() -> None:
    sealed = seal_predictably(CREDENTIALS)
    false, nonce = bytes(32), bytes(12)
    key = hkdf_sha512(DEK, MID, b"EUTERPE/v1/DERIVEKEY")
    body = AESGCM(key).encrypt(
        nonce, PLAINTEXT, aad_of(b"euterpe-cred-v1\0", CREDENTIAL_FIELDS) + MID + false
    )
    assert refused(replace(sealed, ciphertext=MID + false + nonce + body), CREDENTIALS)


@pytest.mark.parametrize(
    "other",
    [
        credentials_context("job-2", "req-1", 3),
        credentials_context("job-1", "req-2", 3),
        credentials_context("job-1", "req-1", 4),
        credentials_context("req-1", "job-1", 3),
        credentials_context("job-1r", "eq-1", 3),
        HOOK,
        Context(b"euterpe-cred-v1\0", HOOK_FIELDS),
        Context(b"euterpe-cred-v1\0", {}),
    ],
)
def test_a_secret_does_not_open_for_another_row(other: Context) -> None:
    assert refused(seal(PLAINTEXT, CREDENTIALS, ring()), other)


def test_the_data_is_bound_to_its_kind_even_when_the_key_is_not() -> None:
    """The two kinds of secrets share a wrap label, so only the AAD of the data distinguishes them."""
    relabelled = Context(b"euterpe-hook-v1\0", CREDENTIAL_FIELDS)
    sealed = seal(PLAINTEXT, CREDENTIALS, ring())
    assert CREDENTIALS.wrap_aad("k1") == relabelled.wrap_aad("k1")
    assert refused(sealed, relabelled)


@pytest.mark.parametrize(
    "other", [credentials_context("job-2", "req-1", 3), CREDENTIALS, HOOK], ids=["job", "same row", "hook"]
)
def test_halves_of_two_secrets_do_not_fit_together(other: Context) -> None:
    first, second = seal(PLAINTEXT, CREDENTIALS, ring()), seal(PLAINTEXT, other, ring())
    mixed = replace(first, dek_wrapped=second.dek_wrapped)
    assert refused(mixed, CREDENTIALS)
    assert refused(mixed, other)


def test_the_kek_id_is_authenticated() -> None:
    same_key_under_two_names = [
        LocalKeyRing(KeySet("a test", "k1", {"k1": K1})),
        LocalKeyRing(KeySet("a test", "k2", {"k2": K1})),
    ]
    sealed = seal(PLAINTEXT, CREDENTIALS, same_key_under_two_names[0])
    renamed = replace(sealed, kek_id="k2")
    with pytest.raises(CannotDecrypt):
        unseal(renamed, CREDENTIALS, same_key_under_two_names[1])
    assert refused(renamed, CREDENTIALS)


def test_an_unknown_kek_is_named() -> None:
    sealed = seal(PLAINTEXT, HOOK, ring("old", old=K1))
    with pytest.raises(UnknownKek, match=r"'old'.*EUTERPE_KEK_FILE") as failed:
        unseal(sealed, HOOK, ring("new", new=K2))
    assert failed.value.kek_id == "old"


@pytest.mark.parametrize("version", [0, 2, -1])
def test_an_unknown_version_is_named(version: int) -> None:
    sealed = replace(seal(PLAINTEXT, HOOK, ring()), version=version)
    with pytest.raises(UnknownFormat, match=f"version {version} "):
        unseal(sealed, HOOK, ring())
    with pytest.raises(UnknownFormat):
        rewrap(sealed, HOOK, ring())


def test_a_rewrap_moves_the_key_and_leaves_the_data() -> None:
    before = seal(PLAINTEXT, CREDENTIALS, ring("k1"))
    after = rewrap(before, CREDENTIALS, ring("k2"))
    assert after.kek_id == "k2"
    assert after.ciphertext == before.ciphertext
    assert unseal(after, CREDENTIALS, ring("k2", k2=K2)) == PLAINTEXT


def test_a_rewrap_under_the_active_key_changes_nothing() -> None:
    sealed = seal(PLAINTEXT, CREDENTIALS, ring())
    assert rewrap(sealed, CREDENTIALS, ring()) is sealed


def test_a_rewrap_for_another_row_is_refused() -> None:
    sealed = seal(PLAINTEXT, CREDENTIALS, ring("k1"))
    with pytest.raises(CannotDecrypt):
        rewrap(sealed, HOOK, ring("k2"))


texts = st.text(st.sampled_from("ab\0é"), max_size=3)
maps = st.dictionaries(texts, texts, max_size=3)
labels = st.sampled_from([b"euterpe-cred-v1\0", b"euterpe-hook-v1\0", b"euterpe-dek-v1\0"])


@given(labels, maps, labels, maps)
def test_different_contexts_never_encode_alike(
    label: bytes, fields: dict[str, str], other_label: bytes, other: dict[str, str]
) -> None:
    alike = Context(label, fields).data_aad(b"", b"") == Context(other_label, other).data_aad(b"", b"")
    assert alike == ((label, fields) == (other_label, other))


@given(maps)
def test_the_order_of_a_map_does_not_count(fields: dict[str, str]) -> None:
    backwards = dict(reversed(fields.items()))
    assert Context(b"l\0", fields).wrap_aad("k1") == Context(b"l\0", backwards).wrap_aad("k1")


@given(
    st.builds(
        Sealed, st.binary(max_size=200), st.binary(max_size=80), st.sampled_from(["k1", "k2"]), st.just(1)
    )
)
def test_garbage_is_refused_like_everything_else(garbage: Sealed) -> None:
    assert refused(garbage, CREDENTIALS)


def test_no_repr_shows_what_is_inside() -> None:
    sealed = seal(PLAINTEXT, CREDENTIALS, ring())
    shown = repr(sealed) + repr(ring()) + json.dumps([str(CannotDecrypt()), repr(CREDENTIALS)])
    for secret in (PLAINTEXT, K1, K2, sealed.ciphertext):
        assert secret.hex() not in shown
        assert repr(secret)[2:-1] not in shown
    assert repr(ring()) == "LocalKeyRing(active_id='k1', ids=('k1', 'k2'))"
