"""Test that the timings of an attempt (CPU, bytes, phases) survive a killed worker and a drain."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from euterpe.domain.rows import AttemptRow
from euterpe.domain.spec import parse_spec
from euterpe.store.engine.wakeup import Topic
from euterpe.store.store import Store
from tests.service.installation import Installation
from tests.service.worker_harness import TIMEOUT_S

_SHORT_LEASE = {"EUTERPE_LEASE_TTL_MS": "2000", "EUTERPE_HEARTBEAT_INTERVAL_MS": "200"}

pytestmark = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)


def await_attempt(store: Store, job_id: str, matches: Callable[[AttemptRow], bool]) -> AttemptRow:
    """Wait until the latest attempt matches, and return it. Meanwhile, sweep as a worker would."""
    with closing(store.database.listen(Topic.INBOX)) as commits:
        for _ in range(int(TIMEOUT_S * 10)):
            attempts = store.jobs.attempts(job_id)
            if attempts and matches(attempts[-1]):
                return attempts[-1]
            commits.wait(0.1)
            store.inbox.sweep()
    raise AssertionError(f"no attempt matches: {attempts}")


def test_a_worker_that_is_killed_in_an_encode_leaves_its_account(
    installation: Installation, media: Path
) -> None:
    worker = installation.start("worker", **_SHORT_LEASE)
    with installation.store() as store:
        spec = parse_spec(installation.request("long.mp4"))
        job_id = store.submit(spec, installation.requester_id).result(TIMEOUT_S).job_id
        running = await_attempt(store, job_id, lambda row: (row.timings or {}).get("cpu_seconds", 0) > 0)
        worker.kill()
        ended = await_attempt(store, job_id, lambda row: row.ended_at is not None)
    assert ended.outcome == "lease_expired"
    timings, before = ended.timings or {}, running.timings or {}
    assert timings["cpu_seconds"] >= before["cpu_seconds"] > 0
    assert timings["bytes_in"] == (media / "long.mp4").stat().st_size
    assert timings["encode_ms"] > 0
    assert timings["measured"] == "last_beat"


def test_a_drained_worker_releases_with_its_final_account(installation: Installation, media: Path) -> None:
    assert media.exists()
    worker = installation.start("worker", **_SHORT_LEASE, EUTERPE_DRAIN_TIMEOUT_MS="0")
    with installation.store() as store:
        spec = parse_spec(installation.request("long.mp4"))
        job_id = store.submit(spec, installation.requester_id).result(TIMEOUT_S).job_id
        await_attempt(store, job_id, lambda row: (row.timings or {}).get("cpu_seconds", 0) > 0)
        assert worker.stop() == 0
        (ended,) = store.jobs.attempts(job_id)
    assert ended.outcome == "released"
    assert ended.timings is not None
    assert ended.timings["measured"] == "final"
    assert ended.timings["cpu_seconds"] > 0
