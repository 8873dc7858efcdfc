"""Tests of the resource usage of an attempt.

The usage is written at each heartbeat and at the end of the attempt.
"""

from contextlib import suppress

from euterpe.worker.meter import UsageMeter


class FakeMonotonic:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def test_a_running_phase_counts_up_to_now() -> None:
    now = FakeMonotonic()
    meter = UsageMeter(now)
    with meter.phase("fetch"):
        now.s = 1.5
        assert meter.changes() == {"fetch_ms": 1500, "measured": "last_beat"}
        now.s = 2.0
    with meter.phase("encode"):
        now.s = 5.0
        assert meter.document("final") == {"fetch_ms": 2000, "encode_ms": 3000, "measured": "final"}


def test_a_phase_that_fails_is_measured_too() -> None:
    now = FakeMonotonic()
    meter = UsageMeter(now)
    with suppress(KeyError), meter.phase("encode"):
        now.s = 3.0
        raise KeyError
    assert meter.document("final")["encode_ms"] == 3000


def test_unchanged_usage_is_not_written_again() -> None:
    meter = UsageMeter()
    meter.note(cpu_seconds=1.5)
    meter.add("bytes_out", 10)
    meter.add("bytes_out", 5)
    assert meter.changes() == {"cpu_seconds": 1.5, "bytes_out": 15, "measured": "last_beat"}
    assert meter.changes() is not None, "changes that are not written are returned again"
    meter.note_written(meter.document("last_beat"))
    assert meter.changes() is None
    meter.note(cpu_seconds=2.0)
    assert meter.changes() == {"cpu_seconds": 2.0, "bytes_out": 15, "measured": "last_beat"}
