import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.control.lease_tokens import InvalidLeaseToken, LeaseClaim, LeaseKey, LeaseTokens, UnknownLeaseKey
from euterpe.crypto.errors import KeyProviderUnavailable

JOB, ATTEMPT = "0199a7c4-5b1e-7000-8000-000000000001", "0199a7c4-5b1e-7000-8000-0000000000a1"
CLAIM = LeaseClaim(JOB, ATTEMPT, 7)
OLD, NEW = LeaseKey("k1", b"o" * 32), LeaseKey("k2", b"n" * 32)
ids = st.uuids().map(str)
claims = st.builds(LeaseClaim, ids, ids, st.integers(0, 2**63 - 1))


class Ring:
    """The stored keys, which a test may change. `reads` is the number of reads."""

    def __init__(self, *keys: LeaseKey) -> None:
        self.keys: Sequence[LeaseKey] = keys
        self.reads, self.is_away = 0, False
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()

    def __call__(self) -> Sequence[LeaseKey]:
        self.reads += 1
        self.begun.set()
        assert self.may_end.wait(30)
        if self.is_away:
            raise KeyProviderUnavailable("no answer")
        return self.keys


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def tokens_of(*keys: LeaseKey) -> LeaseTokens:
    return LeaseTokens(Ring(*keys))


def test_a_token_returns_its_claim() -> None:
    tokens = tokens_of(NEW)
    token = tokens.mint(CLAIM, "worker-eu-1")
    assert tokens.verify(token, "worker-eu-1", job_id=JOB, attempt_id=ATTEMPT) == CLAIM
    assert tokens.verify(token, "worker-eu-1", job_id=JOB) == CLAIM


def test_the_same_claim_has_the_same_token_in_every_process() -> None:
    assert tokens_of(NEW).mint(CLAIM, "w") == tokens_of(NEW).mint(CLAIM, "w")
    assert re.fullmatch(r"elt1\.k2\.[\w-]{54}\.[\w-]{22}", tokens_of(NEW).mint(CLAIM, "w"))


def test_a_token_never_changes() -> None:
    """Two releases of the API can run at the same time, and each must accept the tokens of the other."""
    assert tokens_of(OLD).mint(CLAIM, "w") == (
        "elt1.k1.AZmnxFsecACAAAAAAAAAAQGZp8RbHnAAgAAAAAAAAKEAAAAAAAAABw.qEJ4sMt7RKCA2o53quK0Ow"
    )


@given(claims, st.text(min_size=1))
def test_every_token_is_verified(claim: LeaseClaim, principal: str) -> None:
    tokens = tokens_of(NEW)
    token = tokens.mint(claim, principal)
    assert tokens.verify(token, principal, job_id=claim.job_id, attempt_id=claim.attempt_id) == claim


@given(claims, st.data())
def test_no_changed_character_is_accepted(claim: LeaseClaim, data: st.DataObject) -> None:
    tokens = tokens_of(NEW, OLD)
    token = tokens.mint(claim, "w")
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters().filter(lambda c: c != token[at]))
    with pytest.raises((InvalidLeaseToken, UnknownLeaseKey)):  # UnknownLeaseKey if the key id was changed
        tokens.verify(token[:at] + other + token[at + 1 :], "w", job_id=claim.job_id)


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidLeaseToken):
        tokens_of(NEW).verify(text, "w", job_id=JOB)


@given(claims, st.integers(0, 200))
def test_a_truncated_or_extended_token_is_refused(claim: LeaseClaim, length: int) -> None:
    token = tokens_of(NEW).mint(claim, "w")
    for wrong in {token[:length], token + "A" * length, token + "="} - {token}:
        with pytest.raises(InvalidLeaseToken):
            tokens_of(NEW).verify(wrong, "w", job_id=claim.job_id)


def test_a_token_is_bound_to_its_principal() -> None:
    token = tokens_of(NEW).mint(CLAIM, "worker-eu-1")
    with pytest.raises(InvalidLeaseToken):
        tokens_of(NEW).verify(token, "worker-eu-2", job_id=JOB)


@pytest.mark.parametrize(
    "named",
    [
        {"job_id": ATTEMPT},
        {"job_id": JOB, "attempt_id": JOB},
        {"job_id": JOB, "attempt_id": "0199a7c4-5b1e-7000-8000-0000000000a2"},
        {"job_id": "no id"},
    ],
)
def test_a_token_of_another_job_or_attempt_is_refused(named: dict[str, str]) -> None:
    token = tokens_of(NEW).mint(CLAIM, "w")
    with pytest.raises(InvalidLeaseToken):
        tokens_of(NEW).verify(token, "w", **named)


def test_the_parts_of_two_tokens_cannot_be_combined() -> None:
    tokens = tokens_of(NEW, OLD)
    mine = tokens.mint(CLAIM, "w").split(".")
    other = tokens.mint(LeaseClaim(JOB, ATTEMPT, 8), "w").split(".")
    for combined in ([*mine[:3], other[3]], [*mine[:2], other[2], mine[3]], [mine[0], "k1", *mine[2:]]):
        with pytest.raises(InvalidLeaseToken):
            tokens.verify(".".join(combined), "w", job_id=JOB)


def test_a_token_under_an_unknown_secret_is_refused() -> None:
    forged = tokens_of(LeaseKey("k2", b"f" * 32)).mint(CLAIM, "w")
    with pytest.raises(InvalidLeaseToken):
        tokens_of(NEW).verify(forged, "w", job_id=JOB)


def test_tokens_stay_valid_while_the_old_key_is_kept() -> None:
    token = tokens_of(OLD).mint(CLAIM, "w")
    rotated = tokens_of(NEW, OLD)
    assert rotated.verify(token, "w", job_id=JOB) == CLAIM
    assert rotated.mint(CLAIM, "w").startswith("elt1.k2.")
    with pytest.raises(InvalidLeaseToken):
        tokens_of(NEW).verify(token, "w", job_id=JOB)


def test_keys_are_read_again_after_a_while(clock: Clock) -> None:
    ring = Ring(OLD)
    tokens = LeaseTokens(ring, kept_s=30, clock=clock)
    assert tokens.mint(CLAIM, "w").startswith("elt1.k1.")
    ring.keys = [NEW, OLD]
    assert tokens.mint(CLAIM, "w").startswith("elt1.k1.")
    clock.now += 31
    assert tokens.mint(CLAIM, "w").startswith("elt1.k2.")
    assert ring.reads == 2


def test_the_keys_in_memory_are_used_while_the_key_provider_is_away(clock: Clock) -> None:
    """Heartbeats and claims go on during the outage. The keys are read again after a pause."""
    ring = Ring(OLD)
    tokens = LeaseTokens(ring, clock=clock)
    token = tokens.mint(CLAIM, "w")
    ring.is_away, ring.keys = True, [NEW, OLD]
    clock.now += 31
    for _ in range(100):
        assert tokens.verify(token, "w", job_id=JOB) == CLAIM
        assert tokens.mint(CLAIM, "w") == token
    assert ring.reads == 2
    ring.is_away = False
    clock.now += 6
    assert tokens.mint(CLAIM, "w").startswith("elt1.k2.")
    assert ring.reads == 3


def test_while_one_thread_reads_the_keys_the_others_use_those_in_memory(clock: Clock) -> None:
    """A read blocks for seconds if the key provider does not answer."""
    ring = Ring(OLD)
    tokens = LeaseTokens(ring, clock=clock)
    token = tokens.mint(CLAIM, "w")
    ring.begun.clear()
    ring.may_end.clear()
    clock.now += 31
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(tokens.verify, token, "w", job_id=JOB)
        assert ring.begun.wait(30)
        assert tokens.verify(token, "w", job_id=JOB) == CLAIM
        assert not slow.done()
        ring.may_end.set()
        assert slow.result() == CLAIM
    assert ring.reads == 2


def test_without_any_key_the_error_is_raised_and_the_keys_are_read_once_a_second(clock: Clock) -> None:
    ring = Ring(OLD)
    ring.is_away = True
    tokens = LeaseTokens(ring, clock=clock)
    for _ in range(100):
        with pytest.raises(KeyProviderUnavailable):
            tokens.mint(CLAIM, "w")
    assert ring.reads == 1
    ring.is_away = False
    clock.now += 2
    assert tokens.mint(CLAIM, "w").startswith("elt1.k1.")


def test_a_token_of_a_key_that_another_process_added_is_accepted_at_once(clock: Clock) -> None:
    ring = Ring(OLD)
    tokens = LeaseTokens(ring, clock=clock)
    tokens.mint(CLAIM, "w")
    ring.keys = [NEW, OLD]
    clock.now += 2
    assert tokens.verify(tokens_of(NEW).mint(CLAIM, "w"), "w", job_id=JOB) == CLAIM


def test_forged_key_ids_do_not_read_the_keys_each_time(clock: Clock) -> None:
    ring = Ring(NEW)
    tokens = LeaseTokens(ring, clock=clock)
    forged = tokens_of(LeaseKey("other", b"f" * 32)).mint(CLAIM, "w")
    for number in range(100):
        with pytest.raises(UnknownLeaseKey if number else InvalidLeaseToken):
            tokens.verify(forged, "w", job_id=JOB)
        clock.now += 0.001
    assert ring.reads == 1
    clock.now += 1
    with pytest.raises(InvalidLeaseToken):
        tokens.verify(forged, "w", job_id=JOB)


def test_a_token_of_a_key_that_was_added_a_moment_ago_is_not_refused_for_good(clock: Clock) -> None:
    """`InvalidLeaseToken` would end the attempt. After `UnknownLeaseKey`, the worker repeats its call."""
    ring = Ring(OLD)
    tokens = LeaseTokens(ring, clock=clock)
    tokens.mint(CLAIM, "w")
    ring.keys = [NEW, OLD]
    clock.now += 0.5
    token = tokens_of(NEW, OLD).mint(CLAIM, "w")
    with pytest.raises(UnknownLeaseKey):
        tokens.verify(token, "w", job_id=JOB)
    clock.now += 1
    assert tokens.verify(token, "w", job_id=JOB) == CLAIM


def test_a_token_of_an_unknown_key_is_not_refused_for_good_while_the_keys_cannot_be_read(
    clock: Clock,
) -> None:
    ring = Ring(OLD)
    tokens = LeaseTokens(ring, clock=clock)
    tokens.mint(CLAIM, "w")
    ring.is_away, ring.keys = True, [NEW, OLD]
    clock.now += 2
    token = tokens_of(NEW, OLD).mint(CLAIM, "w")
    for _ in range(2):
        with pytest.raises(UnknownLeaseKey):
            tokens.verify(token, "w", job_id=JOB)
    assert ring.reads == 2


@pytest.mark.parametrize("key_id", ["", "a.b", "ü", "k" * 33, "a\0"])
def test_a_key_id_that_would_break_a_token_is_refused(key_id: str) -> None:
    with pytest.raises(ValueError, match="key_id"):
        LeaseKey(key_id, b"k" * 32)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        LeaseKey("k1", b"k" * 31)


def test_no_text_form_shows_a_key() -> None:
    assert "oooo" not in repr(OLD)


def test_claims_with_other_forms_of_an_id_are_equal() -> None:
    upper = LeaseClaim(UUID(JOB).hex.upper(), ATTEMPT, 7)
    token = tokens_of(NEW).mint(upper, "w")
    assert tokens_of(NEW).verify(token, "w", job_id=JOB) == CLAIM
