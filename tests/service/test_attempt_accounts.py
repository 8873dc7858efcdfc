"""A worker that is killed in the midst of an encode: what the attempt had used until then is on the books."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.spec import parse_spec
from euterpe.store.engine.wakeup import Topic
from euterpe.store.store import Store
from tests.service.installation import Installation
from tests.service.worker_harness import LONG_S

_SHORT = {"EUTERPE_LEASE_TTL_MS": "2000", "EUTERPE_HEARTBEAT_INTERVAL_MS": "200"}

pytestmark = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)


def await_attempt(store: Store, job_id: str, is_there: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the latest attempt once it is such. It sweeps, as any worker would."""
    with closing(store.database.listen(Topic.INBOX)) as commits:
        for _ in range(int(LONG_S * 10)):
            attempts = store.jobs.attempts(job_id)
            if attempts and is_there(attempts[-1]):
                return attempts[-1]
            commits.wait(0.1)
            store.inbox.sweep()
    raise AssertionError(f"the attempts stay {attempts}")


def test_a_worker_that_is_killed_in_an_encode_leaves_its_account(
    installation: Installation, media: Path
) -> None:
    worker = installation.start("worker", **_SHORT)
    with installation.store() as store:
        spec = parse_spec(installation.request("long.mp4"))
        job_id = store.submit(spec, installation.requester_id).result(LONG_S).job_id
        running = await_attempt(store, job_id, lambda row: (row["timings"] or {}).get("cpu_seconds", 0) > 0)
        worker.kill()
        ended = await_attempt(store, job_id, lambda row: row["ended_at"] is not None)
    assert ended["outcome"] == "lease_expired"
    timings = ended["timings"]
    assert timings["cpu_seconds"] >= running["timings"]["cpu_seconds"] > 0
    assert timings["bytes_in"] == (media / "long.mp4").stat().st_size
    assert timings["encode_ms"] > 0
    assert timings["measured"] == "last_beat"


def test_a_drained_worker_hands_back_with_its_final_account(installation: Installation, media: Path) -> None:
    assert media.exists()
    worker = installation.start("worker", **_SHORT, EUTERPE_DRAIN_TIMEOUT_MS="0")
    with installation.store() as store:
        spec = parse_spec(installation.request("long.mp4"))
        job_id = store.submit(spec, installation.requester_id).result(LONG_S).job_id
        await_attempt(store, job_id, lambda row: (row["timings"] or {}).get("cpu_seconds", 0) > 0)
        assert worker.stop() == 0
        (ended,) = store.jobs.attempts(job_id)
    assert ended["outcome"] == "released"
    assert ended["timings"]["measured"] == "final"
    assert ended["timings"]["cpu_seconds"] > 0
