"""The watch for database outages: which failures count as one outage."""

from euterpe.store.engine.outage import OutageWatch

NEVER = float("-inf")


def test_failures_without_a_success_between_them_are_one_outage() -> None:
    now = [0.0]
    watch = OutageWatch(least_s=15.0, monotonic=lambda: now[0])
    watch.succeeded()
    for began_at in (1.0, 9.0):
        watch.failed(began_at)
    now[0] = 15.9
    watch.succeeded()
    assert watch.ended_at == NEVER
    watch.failed(16.0)
    now[0] = 31.0
    watch.succeeded()
    assert watch.ended_at == 31.0
    now[0] = 60.0
    watch.succeeded()
    assert watch.ended_at == 31.0


def test_a_failure_between_two_successes_is_no_outage() -> None:
    now = [0.0]
    watch = OutageWatch(least_s=15.0, monotonic=lambda: now[0])
    for second in range(0, 60, 2):
        watch.failed(float(second))
        now[0] = second + 1.0
        watch.succeeded()
    assert watch.ended_at == NEVER
