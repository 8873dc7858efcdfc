from concurrent.futures import ThreadPoolExecutor

from euterpe.client import MemoryDedupe


def test_the_first_time_is_once() -> None:
    seen = MemoryDedupe()
    assert [seen.first_time(event_id) for event_id in ("a", "b", "a", "a")] == [True, True, False, False]


def test_of_many_at_once_one_is_the_first() -> None:
    seen = MemoryDedupe()
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(seen.first_time, ["a"] * 200)) == 1


def test_what_failed_may_come_again() -> None:
    seen = MemoryDedupe()
    seen.first_time("a")
    seen.forget("a")
    seen.forget("never seen")
    assert seen.first_time("a")


def test_the_oldest_make_room() -> None:
    now = 0.0
    seen = MemoryDedupe(keep_seconds=60.0, capacity=2, clock=lambda: now)
    assert [seen.first_time(event_id) for event_id in ("a", "b", "c")] == [True] * 3
    assert [seen.first_time(event_id) for event_id in ("b", "c")] == [False] * 2
    now = 60.5
    assert seen.first_time("b")
