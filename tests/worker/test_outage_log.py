"""Tests of the log lines of an outage."""

from structlog.testing import capture_logs

from euterpe.domain.leased_job import Unavailable
from euterpe.worker.outage_log import OutageLog


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_outage_is_logged_at_its_begin_once_a_minute_and_at_its_end() -> None:
    clock = Clock()
    outage = OutageLog("heartbeat_failed", clock=clock)
    with capture_logs() as logs:
        outage.ended()
        for _ in range(91):
            outage.failed(Unavailable("no answer"))
            clock.now += 1.0
        outage.ended()
        outage.ended()
        outage.failed(Unavailable("no answer"))
    first, reminder, end, next_outage = logs
    assert (
        first
        == next_outage
        == {
            "event": "heartbeat_failed",
            "code": "unavailable",
            "error": "no answer",
            "log_level": "warning",
        }
    )
    assert reminder == {**first, "failures": 61}
    assert end == {
        "event": "outage_over",
        "of": "heartbeat_failed",
        "seconds": 91.0,
        "failures": 91,
        "log_level": "info",
    }


def test_another_error_is_logged_at_once() -> None:
    class Refused(Unavailable):
        code = "worker_key_refused"

    outage = OutageLog("heartbeat_failed", clock=Clock())
    with capture_logs() as logs:
        outage.failed(Unavailable("no answer"))
        outage.failed(Refused("the key is unknown"))
        outage.failed(Refused("the key is unknown"))
    assert [entry["code"] for entry in logs] == ["unavailable", "worker_key_refused"]
