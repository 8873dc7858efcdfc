"""Tests of the pace of a transfer that several threads share."""

from contextlib import ExitStack

from euterpe.net.pace import MinimumPace, TransferPace

PACE = MinimumPace(bytes_per_s=1000, window_s=10.0)


def test_threads_that_wait_at_the_same_time_wait_once() -> None:
    """If the waits were added up, eight connections on a slow line would count as too slow.

    A single connection on the same line would not count as too slow.
    """
    pace = TransferPace(PACE)
    with ExitStack() as threads:
        for _ in range(8):
            threads.enter_context(pace.shared())
        for _ in range(8):
            pace.add(9.0, 100)
        assert not pace.is_too_slow
        assert pace.seconds_left == 8.0
        for _ in range(8):
            pace.add(1.0, 100)
        assert pace.is_too_slow


def test_one_thread_waits_for_itself() -> None:
    pace = TransferPace(PACE)
    with pace.shared():
        pace.add(9.0, 100)
        assert pace.seconds_left == 1.0
        pace.add(1.0, 100)
    assert pace.is_too_slow
