"""BackgroundLoop: its runs, sleeps and errors, and the two ways to stop it."""

import threading

from structlog.testing import capture_logs

from euterpe.runtime.background_loop import BackgroundLoop

TIMEOUT_S = 60.0


def test_it_runs_until_it_is_stopped() -> None:
    runs = threading.Semaphore(0)

    def run_once() -> float:
        runs.release()
        return 0.0

    loop = BackgroundLoop("test", run_once)
    loop.start()
    for _ in range(3):
        assert runs.acquire(timeout=TIMEOUT_S)
    loop.stop()
    assert loop.is_stopping
    assert not loop._thread.is_alive()


def test_none_ends_the_loop() -> None:
    calls: list[int] = []

    def run_once() -> float | None:
        calls.append(1)
        return 0.0 if len(calls) < 3 else None

    loop = BackgroundLoop("test", run_once)
    loop.start()
    loop._thread.join(TIMEOUT_S)
    assert len(calls) == 3


def test_stop_ends_a_sleep() -> None:
    slept = threading.Event()

    def run_once() -> float:
        slept.set()
        return 3600.0

    loop = BackgroundLoop("test", run_once)
    loop.start()
    assert slept.wait(TIMEOUT_S)
    loop.stop()


def test_the_first_run_comes_after_the_first_pause() -> None:
    runs: list[int] = []
    loop = BackgroundLoop("test", lambda: runs.append(1), first_pause_s=3600.0)
    loop.start()
    loop.stop()
    assert runs == []


def test_an_exception_does_not_end_the_loop() -> None:
    errors: list[Exception] = []
    recovered = threading.Event()

    def run_once() -> float | None:
        if not errors:
            raise ZeroDivisionError("once")
        recovered.set()
        return None

    def on_error(error: Exception) -> float:
        errors.append(error)
        return 0.0

    loop = BackgroundLoop("test", run_once, on_error=on_error)
    loop.start()
    assert recovered.wait(TIMEOUT_S)
    loop.stop()
    assert [type(error) for error in errors] == [ZeroDivisionError]


def test_without_a_handler_an_exception_is_logged() -> None:
    logged = threading.Event()

    def run_once() -> float:
        logged.set()
        raise ZeroDivisionError("canary")

    loop = BackgroundLoop("test", run_once)
    with capture_logs() as logs:
        loop.start()
        assert logged.wait(TIMEOUT_S)
        loop.stop()
    assert [entry["loop"] for entry in logs if entry["event"] == "background_loop_failed"] == ["test"]


def test_a_handler_that_raises_does_not_end_the_loop() -> None:
    runs: list[int] = []
    recovered = threading.Event()

    def run_once() -> float | None:
        runs.append(1)
        if len(runs) == 1:
            raise ZeroDivisionError("once")
        recovered.set()
        return None

    def on_error(error: Exception) -> float:
        raise RuntimeError("the handler") from error

    loop = BackgroundLoop("the loop", run_once, on_error=on_error)
    with capture_logs() as logs:
        loop.start()
        assert recovered.wait(TIMEOUT_S)
        loop.stop()
    failures = [entry for entry in logs if entry["event"] == "background_loop_failed"]
    assert [entry["loop"] for entry in failures] == ["the loop"]


def test_a_draining_loop_goes_on_after_stop_until_nothing_is_left() -> None:
    work = [1, 2, 3]
    begun, go_on = threading.Event(), threading.Event()

    def run_once() -> float | None:
        begun.set()
        assert go_on.wait(TIMEOUT_S)
        if not work:
            return None
        work.pop()
        return 3600.0

    loop = BackgroundLoop("test", run_once, drains=True)
    loop.start()
    assert begun.wait(TIMEOUT_S)
    loop.begin_stop()
    go_on.set()
    loop.stop()
    assert work == []


def test_a_draining_loop_sleeps_after_an_exception_and_goes_on() -> None:
    """Without the sleep, the loop would repeat a failing call without a pause until the drain ends."""
    begun, go_on = threading.Event(), threading.Event()
    pauses: list[float] = []
    steps = iter(["wait for the stop", "fail", "fail", "end"])

    def run_once() -> float | None:
        step = next(steps)
        if step == "fail":
            raise ZeroDivisionError(step)
        begun.set()
        assert go_on.wait(TIMEOUT_S)
        return None if step == "end" else 3600.0

    loop = BackgroundLoop("test", run_once, on_error=lambda _: 7.0, drains=True, drain_sleep=pauses.append)
    loop.start()
    assert begun.wait(TIMEOUT_S)
    loop.begin_stop()
    go_on.set()
    loop.stop()
    assert pauses == [7.0, 7.0]
    assert next(steps, None) is None


def test_a_loop_that_never_started_can_be_stopped() -> None:
    BackgroundLoop("test", lambda: 0.0).stop()
