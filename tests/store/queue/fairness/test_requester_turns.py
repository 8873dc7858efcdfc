"""Claims from the outbox, in round-robin order of the requesters."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.store.queue.fairness.requester_turns import turn_ranges
from euterpe.store.queue.outbox import Outbox
from euterpe.store.store import Store
from tests.store.jobs import SPEC, enqueue

IDS = st.text("ab1-é", min_size=1, max_size=3)


@given(IDS, st.sets(IDS, max_size=4), st.sets(IDS, max_size=6))
def test_all_but_the_skipped_have_a_turn_and_the_last_served_is_last(
    last: str, skipped: set[str], waiting: set[str]
) -> None:
    ranges = turn_ranges(last, skipped)
    turns = [one for low, high in ranges for one in sorted(waiting) if low < one < high]
    assert sorted(turns) == sorted(waiting - skipped)
    behind = sorted(one for one in waiting - skipped if one > last)
    assert turns == behind + sorted(one for one in waiting - skipped if one <= last)


def announce(store: Store, requester_id: str, events: int) -> None:
    enqueue(store, events, requester_id=requester_id, spec={**SPEC, "webhook_events": ["claimed"]})
    while store.inbox.claim("w1", 500):
        pass


def owners(outbox: Outbox, limit: int, skipped: tuple[str, ...] = ()) -> Counter[str]:
    return Counter(event.requester_id for event in outbox.claim("d1", limit, skipped=skipped))


def test_a_backlog_of_one_requester_is_in_nobodys_way(store: Store) -> None:
    announce(store, "hostile", 300)
    announce(store, "small", 3)
    assert owners(store.outbox, 10) == {"hostile": 10}
    assert owners(store.outbox, 10) == {"small": 3, "hostile": 7}
    announce(store, "another", 1)
    assert owners(store.outbox, 10)["another"] == 1


def test_many_small_requesters_share_a_claim(store: Store) -> None:
    for number in range(8):
        announce(store, f"r{number}", 2)
    assert owners(store.outbox, 10) == {f"r{number}": 2 for number in range(5)}
    assert owners(store.outbox, 10) == {f"r{number}": 2 for number in range(5, 8)}


@pytest.mark.parametrize("skipped", [("hostile",), ("a", "hostile", "z"), ("aa", "hostile", "nobody")])
def test_a_requester_that_is_skipped_is_passed_over(store: Store, skipped: tuple[str, ...]) -> None:
    announce(store, "hostile", 30)
    announce(store, "b", 2)
    announce(store, "small", 2)
    for _ in range(2):
        assert "hostile" not in owners(store.outbox, 3, skipped)
    assert owners(store.outbox, 40) == {"hostile": 30}


def test_two_dispatchers_pass_over_what_the_other_one_has(store: Store) -> None:
    announce(store, "r1", 6)
    other = Outbox(store.database, sweep_every_ms=0)
    claimed = store.outbox.claim("d1", 4) + other.claim("d2", 4)
    assert len({event.event_id for event in claimed}) == 6
