"""Model test of the ranges of a source: in any order of events, each byte is fetched and counted once."""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from euterpe.storage.range_schedule import ByteRange, RangeSchedule

SIZE = 1000
INDEXES = st.integers(0, 7)
COUNTS = st.integers(1, 300)


class RangesOfASource(RuleBasedStateMachine):
    """The front request and several range requests, all of which write to a model of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = RangeSchedule(SIZE, least_bytes=10)
        self.held: list[ByteRange] = []
        self.is_written = [False] * SIZE

    def write(self, start: int, count: int) -> None:
        self.is_written[start : start + count] = [True] * count

    @rule(count=COUNTS)
    def append(self, count: int) -> None:
        own = min(count, self.schedule.limit - self.schedule.front)
        self.write(self.schedule.front, own)
        self.schedule.front += own

    @rule()
    def pass_ranges(self) -> None:
        if not self.schedule.pass_ranges():
            assert any(part.is_held and part.start == self.schedule.front for part in self.held)

    @rule()
    def revoke(self) -> None:
        self.schedule.revoke_next()

    @rule(connections=st.integers(2, 4))
    def take(self, connections: int) -> None:
        if (part := self.schedule.take(connections)) is not None:
            assert part not in self.held
            self.held.append(part)

    @precondition(lambda self: self.held)
    @rule(index=INDEXES, count=COUNTS)
    def fetch(self, index: int, count: int) -> None:
        part = self.held[index % len(self.held)]
        if part.is_held:
            count = min(count, part.end - part.next)
            self.write(part.next, count)
            part.done += count

    @precondition(lambda self: self.held)
    @rule(index=INDEXES)
    def give_back(self, index: int) -> None:
        self.held.pop(index % len(self.held)).is_held = False

    @rule(is_asked=st.sampled_from([False] * 9 + [True]))
    def drop(self, is_asked: bool) -> None:
        if is_asked:
            self.schedule.drop_ranges()
            self.is_written[self.schedule.front :] = [False] * (SIZE - self.schedule.front)

    @invariant()
    def counts_each_byte_once(self) -> None:
        assert all(self.is_written[: self.schedule.front])
        assert self.schedule.received == sum(self.is_written)

    @invariant()
    def no_byte_has_two_holders(self) -> None:
        wanted = [part for part in self.held if part.is_held and not part.is_complete]
        parts = sorted((part.next, part.end) for part in wanted)
        assert all(before[1] <= after[0] for before, after in pairwise(parts))
        assert all(self.schedule.front <= start for start, _ in parts)

    def teardown(self) -> None:
        """Finish the fetch with only the front request."""
        while self.schedule.front < SIZE:
            self.schedule.revoke_next()
            self.schedule.pass_ranges()
            self.append(SIZE)
        assert all(self.is_written)


TestRangesOfASource = RangesOfASource.TestCase
TestRangesOfASource.settings = settings(max_examples=200, deadline=None)


def test_the_first_ranges_are_shares_of_the_rest_from_its_end() -> None:
    schedule = RangeSchedule(64 << 20)
    taken = [schedule.take(4) for _ in range(3)]
    assert [(part.start >> 20, part.end >> 20) for part in taken if part] == [(48, 64), (36, 48), (27, 36)]


def test_a_slow_front_is_left_with_little() -> None:
    schedule = RangeSchedule(64 << 20)
    while schedule.take(4):
        pass
    assert schedule.limit < 512 << 10


def test_a_rest_that_is_not_worth_a_request_is_left_to_the_front() -> None:
    assert RangeSchedule(10 << 20).take(4, (10 << 20) + 1) is None
    assert RangeSchedule(10 << 20).take(4, 10 << 20) is not None


def test_a_source_without_a_size_has_no_ranges() -> None:
    assert RangeSchedule(None).take(4) is None
