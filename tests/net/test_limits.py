import pytest

from euterpe.net.errors import EgressBadAnswer, EgressTimeout, EgressTooSlow
from euterpe.net.limits import MAX_HEAD_BYTES, RequestLimits
from euterpe.net.pace import MinimumPace, TransferPace


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def wait(limits: RequestLimits, clock: Clock, seconds: float, moved: int) -> None:
    limits.begin_wait()
    clock.now += seconds
    limits.end_wait(moved)


def test_a_wait_may_take_what_is_left_of_the_deadline(clock: Clock) -> None:
    limits = RequestLimits("here", 10, clock=clock)
    assert limits.begin_wait() == 10
    clock.now += 4
    assert limits.begin_wait() == 6


def test_bytes_do_not_stretch_the_deadline(clock: Clock) -> None:
    limits = RequestLimits("here", 10, idle_s=3, clock=clock)
    for _ in range(10):
        wait(limits, clock, 1, 1_000_000)
    with pytest.raises(EgressTimeout, match="here: did not finish within 10 s"):
        limits.begin_wait()


def test_a_wait_may_last_as_long_as_idle_s(clock: Clock) -> None:
    limits = RequestLimits("here", 100, idle_s=3, clock=clock)
    assert limits.begin_wait() == 3


def test_a_drip_is_cut_when_it_falls_behind_the_pace(clock: Clock) -> None:
    limits = RequestLimits("here", 100, idle_s=3, clock=clock)
    for _ in range(3):
        wait(limits, clock, 1, 1023)
    with pytest.raises(EgressTimeout, match="less than 1 KiB a second for 3 s"):
        limits.begin_wait()


def test_a_transfer_that_keeps_the_pace_goes_on(clock: Clock) -> None:
    limits = RequestLimits("here", 100, idle_s=3, clock=clock)
    for _ in range(99):
        wait(limits, clock, 1, 1100)
    assert limits.begin_wait() == 1


def test_time_between_waits_does_not_count_against_the_pace(clock: Clock) -> None:
    limits = RequestLimits("here", 100, idle_s=3, clock=clock)
    wait(limits, clock, 1, 100)
    clock.now += 50
    assert limits.begin_wait() == 2


def test_a_turn_starts_the_pace_anew(clock: Clock) -> None:
    limits = RequestLimits("here", 100, idle_s=3, clock=clock)
    wait(limits, clock, 2.5, 100)
    limits.turn()
    assert limits.begin_wait() == 3


def test_a_head_without_end_is_no_answer(clock: Clock) -> None:
    limits = RequestLimits("here", 100, clock=clock)
    limits.received(MAX_HEAD_BYTES)
    limits.begin_wait()
    limits.received(1)
    with pytest.raises(EgressBadAnswer):
        limits.begin_wait()


def test_after_the_head_as_much_as_is_wanted_may_come(clock: Clock) -> None:
    limits = RequestLimits("here", 100, clock=clock)
    limits.received(MAX_HEAD_BYTES + 1)
    limits.head_read(5)
    limits.received(5)
    limits.begin_wait()
    limits.received(1)
    with pytest.raises(EgressBadAnswer):
        limits.begin_wait()


def test_the_time_that_it_takes_to_connect_counts_for_the_pace_of_a_transfer(clock: Clock) -> None:
    pace = TransferPace(MinimumPace(bytes_per_s=100, window_s=10))
    pace.add(0.5, 10)
    for _ in range(3):  # each time, the server closes the connection after a few bytes
        limits = RequestLimits("here", 100, pace=pace, clock=clock)
        with limits.connecting():
            clock.now += 4
    with pytest.raises(EgressTooSlow, match="here: moved less than 100 bytes a second for 10 s"):
        limits.begin_wait()


def test_a_wait_is_divided_into_ticks_up_to_its_end(clock: Clock) -> None:
    called: list[float] = []
    limits = RequestLimits("here", 2, clock=clock, on_wait=lambda: called.append(clock.now), tick_s=0.75)
    ticks = limits.ticks()
    for expected in (0.75, 0.75, 0.5):
        seconds = next(ticks)
        assert seconds == expected
        clock.now += seconds
    with pytest.raises(EgressTimeout, match="did not finish within 2 s"):
        next(ticks)
    assert called == [1000.75, 1001.5]


def test_without_a_callback_a_wait_is_one_part(clock: Clock) -> None:
    assert next(RequestLimits("here", 10, clock=clock, tick_s=0.5).ticks()) == 10
