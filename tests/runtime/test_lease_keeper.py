"""LeaseKeeper: the claims that a heartbeat extends, and the effects of a failed heartbeat."""

import threading
from collections.abc import Sequence

from euterpe.runtime.lease_keeper import LeaseKeeper

TIMEOUT_S = 60.0


class RecordingKeeper(LeaseKeeper[object]):
    """A lease keeper whose heartbeats are recorded, and fail while `error` is set."""

    def __init__(self) -> None:
        super().__init__("test", interval_s=0.001)
        self.sent: list[list[object]] = []
        self.error: Exception | None = None
        self.errors: list[Exception] = []
        self.beaten = threading.Semaphore(0)

    def send_heartbeat(self, claims: Sequence[object]) -> None:
        self.sent.append(list(claims))
        self.beaten.release()
        if self.error is not None:
            raise self.error

    def pause_after(self, error: Exception) -> float:
        self.errors.append(error)
        return 0.0


def test_one_heartbeat_has_all_claims_in_hand() -> None:
    keeper = RecordingKeeper()
    first, second = object(), object()
    keeper.add("a", first)
    keeper.add("b", second)
    keeper.beat()
    keeper.remove("a", first)
    keeper.beat()
    assert keeper.sent == [[first, second], [second]]


def test_nothing_in_hand_needs_no_heartbeat() -> None:
    keeper = RecordingKeeper()
    keeper.beat()
    assert keeper.sent == []


def test_removing_an_earlier_claim_leaves_a_later_one_of_the_same_row() -> None:
    keeper = RecordingKeeper()
    earlier, later = object(), object()
    keeper.add("a", earlier)
    keeper.add("a", later)
    keeper.remove("a", earlier)
    assert keeper.held() == [later]
    assert keeper.get("a") is later


def test_a_failed_heartbeat_is_tried_again() -> None:
    keeper = RecordingKeeper()
    keeper.error = ZeroDivisionError("unavailable")
    keeper.add("a", object())
    keeper.start()
    for _ in range(3):
        assert keeper.beaten.acquire(timeout=TIMEOUT_S)
    keeper.stop()
    assert {type(error) for error in keeper.errors} == {ZeroDivisionError}


def test_an_interval_that_becomes_shorter_holds_within_a_second() -> None:
    keeper = RecordingKeeper()
    keeper.interval_s = 3600.0
    keeper.start()
    keeper.add("a", object())
    keeper.interval_s = 0.001
    assert keeper.beaten.acquire(timeout=TIMEOUT_S)
    keeper.stop()
