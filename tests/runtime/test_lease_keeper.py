"""LeaseKeeper: which claims are in a heartbeat, and what follows when it fails."""

import threading
from collections.abc import Sequence

from euterpe.runtime.lease_keeper import LeaseKeeper

TIMEOUT_S = 60.0


class Heartbeats:
    """A fake heartbeat, which records its claims and can fail."""

    def __init__(self) -> None:
        self.sent: list[list[object]] = []
        self.error: Exception | None = None
        self.happened = threading.Semaphore(0)

    def __call__(self, claims: Sequence[object]) -> None:
        self.sent.append(list(claims))
        self.happened.release()
        if self.error is not None:
            raise self.error


def keeper_of(heartbeats: Heartbeats, errors: list[Exception]) -> LeaseKeeper[object]:
    def on_error(error: Exception) -> float:
        errors.append(error)
        return 0.0

    return LeaseKeeper("test", heartbeats, interval_s=0.001, on_error=on_error)


def test_one_heartbeat_has_all_claims_in_hand() -> None:
    heartbeats = Heartbeats()
    keeper = keeper_of(heartbeats, [])
    first, second = object(), object()
    keeper.add("a", first)
    keeper.add("b", second)
    keeper.beat()
    keeper.remove("a", first)
    keeper.beat()
    assert heartbeats.sent == [[first, second], [second]]


def test_nothing_in_hand_needs_no_heartbeat() -> None:
    heartbeats = Heartbeats()
    keeper_of(heartbeats, []).beat()
    assert heartbeats.sent == []


def test_removing_an_earlier_claim_leaves_a_later_one_of_the_same_row() -> None:
    keeper = keeper_of(Heartbeats(), [])
    earlier, later = object(), object()
    keeper.add("a", earlier)
    keeper.add("a", later)
    keeper.remove("a", earlier)
    assert keeper.held() == [later]
    assert keeper.get("a") is later


def test_a_failed_heartbeat_is_tried_again() -> None:
    heartbeats, errors = Heartbeats(), list[Exception]()
    heartbeats.error = ZeroDivisionError("unavailable")
    keeper = keeper_of(heartbeats, errors)
    keeper.add("a", object())
    keeper.start()
    for _ in range(3):
        assert heartbeats.happened.acquire(timeout=TIMEOUT_S)
    keeper.stop()
    assert {type(error) for error in errors} == {ZeroDivisionError}
