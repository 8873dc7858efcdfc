import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.crypto.apikeys import matches, mint, parse
from euterpe.crypto.errors import MalformedApiKey

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
KEY = "eut_0123456789AB_abcdefghijklmnopqrstuvwxyzABCD1bq0Dq"


def checksum(text: str) -> str:
    number = zlib.crc32(text.encode())
    return "".join(BASE62[number // 62**place % 62] for place in reversed(range(6)))


def test_a_minted_key_is_parsed_and_matches_its_hash() -> None:
    minted = mint()
    parsed = parse(minted.plaintext)
    assert parsed.key_id == minted.key_id
    assert minted.plaintext == f"eut_{parsed.key_id}_{parsed.secret}{minted.plaintext[-6:]}"
    assert minted.secret_hash == hashlib.sha256(parsed.secret.encode()).hexdigest()
    assert matches(parsed, minted.secret_hash)


def test_no_two_minted_keys_are_alike() -> None:
    minted = [mint() for _ in range(50)]
    assert len({key.key_id for key in minted}) == 50
    assert len({key.secret_hash for key in minted}) == 50


def test_another_secret_does_not_match() -> None:
    parsed = parse(mint().plaintext)
    assert not matches(parsed, mint().secret_hash)
    assert not matches(parsed, "")
    assert not matches(parsed, "é")


def test_the_form_never_changes() -> None:
    """Keys that are issued by this release must stay valid in every later release."""
    assert KEY[-6:] == checksum(KEY[:-6])
    assert (parse(KEY).key_id, parse(KEY).secret) == ("0123456789AB", "abcdefghijklmnopqrstuvwxyzABCD")


@pytest.mark.parametrize("at", range(len(KEY)))
def test_every_typo_is_found(at: int) -> None:
    for wrong in BASE62 + "_ é":
        if wrong != KEY[at]:
            with pytest.raises(MalformedApiKey):
                parse(KEY[:at] + wrong + KEY[at + 1 :])


def test_swapped_neighbours_are_found() -> None:
    for at in range(len(KEY) - 1):
        swapped = KEY[:at] + KEY[at + 1] + KEY[at] + KEY[at + 2 :]
        if swapped != KEY:
            with pytest.raises(MalformedApiKey):
                parse(swapped)


@pytest.mark.parametrize("text", ["", KEY[:-1], KEY + "0", KEY + "\n", " " + KEY, KEY.upper(), "eut__"])
def test_other_text_is_no_key(text: str) -> None:
    with pytest.raises(MalformedApiKey):
        parse(text)


@given(st.text(max_size=80))
def test_any_text_is_a_key_or_a_typed_error_that_does_not_echo_it(text: str) -> None:
    with pytest.raises(MalformedApiKey) as refused:
        parse(text)
    assert str(refused.value) == str(MalformedApiKey())


def test_no_repr_shows_the_secret() -> None:
    minted = mint()
    parsed = parse(minted.plaintext)
    assert repr(minted) == f"MintedKey(key_id={minted.key_id!r})"
    assert repr(parsed) == f"ParsedKey(key_id={parsed.key_id!r})"
