"""Test that no job or event is lost by random SIGKILLs and a receiver that refuses half of the events."""

import json
import logging
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa

from euterpe.client import Client, Job, RetryPolicy
from euterpe.domain.states import OutboxStatus
from euterpe.store.engine.wakeup import Topic
from euterpe.store.store import Store
from euterpe.store.tables import job_outbox_events
from tests.service.clips import make_tiny_clip
from tests.service.installation import Installation
from tests.service.process_killer import killing
from tests.service.store.processes.invariants import check_lives, read_lives

_log = logging.getLogger(__name__)
_event = job_outbox_events.c

_REQUESTERS = 12
_TIMEOUT_S = 300.0
# The mean number of log lines and events (`Progress`) between two kills. A job without faults makes seven.
_MEAN_PROGRESS = 16
_SETTINGS = {
    "EUTERPE_LEASE_TTL_MS": "2000",
    "EUTERPE_HEARTBEAT_INTERVAL_MS": "400",
    "EUTERPE_WORKER_SLOTS": "3",
    "EUTERPE_OUTBOX_MAX_ATTEMPTS": "100",
}

# The client's default number of tries is enough for one restart of the service. This test restarts the
# service many times.
_RETRY = RetryPolicy(attempts=1000)

pytestmark = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def bucket(installation: Installation, engine: str) -> Path:
    folder = installation.s3.bucket(f"chaos-{engine}-{installation.folder.stat().st_ino}")
    make_tiny_clip(folder / "tiny.mp4")
    return folder


@pytest.mark.parametrize(
    ("kills", "jobs"), [(8, 20), pytest.param(100, 300, marks=pytest.mark.soak, id="soak")]
)
def test_what_is_killed_at_random_loses_nothing_and_does_nothing_twice(
    installation: Installation, bucket: Path, kills: int, jobs: int
) -> None:
    with killing(installation, seed=kills, **_SETTINGS) as killer:
        over, number = threading.Event(), count(1)

        def submit_jobs() -> list[Job]:
            done = []
            with Client(killer.url, installation.api_key, retry=_RETRY) as client:
                while (n := next(number)) <= jobs or not over.is_set():
                    accepted = client.submit(_request(installation, bucket, n))
                    done.append(client.wait(accepted.job_id, timeout=_TIMEOUT_S))
            return done

        with ThreadPoolExecutor(_REQUESTERS) as pool:
            requesters = [pool.submit(submit_jobs) for _ in range(_REQUESTERS)]
            try:
                killer.kill_repeatedly(kills, _MEAN_PROGRESS)
            finally:
                over.set()
                done = [job for requester in requesters for job in requester.result()]
        with installation.store() as store:
            _await_deliveries(store)
        killer.stop()
        orphans = killer.await_orphans()
    assert [line for line in killer.log if '"level": "error"' in line] == []
    with installation.store() as store:
        _check_jobs(store, done)
        _check_events(store, installation)
        lives = read_lives(store)
    _check_objects(bucket, done)
    assert list(installation.work.iterdir()) == []
    outcomes = Counter(attempt.outcome for life in lives.values() for attempt in life.attempts)
    deliveries = sum(map(len, installation.receiver.bodies.values()))
    assert outcomes["lease_expired"] > 0
    assert orphans > 0
    _log.info(
        "kills %s, jobs %d, attempts %s, events %d, deliveries %d, children %d",
        *(
            dict(killer.kills),
            len(done),
            dict(outcomes),
            len(installation.receiver.bodies),
            deliveries,
            orphans,
        ),
    )


def _request(installation: Installation, bucket: Path, n: int) -> dict[str, object]:
    return {
        "source": {"url": f"s3://{bucket.name}/tiny.mp4"},
        "output": {"url": f"s3://{bucket.name}/{n}/"},
        "outputs": [_OUTPUTS[n % 2]],
        "credentials": installation.s3.document(),
        "status_webhook_url": installation.receiver.hook_url,
        "max_attempts": 100,
        "metadata": {"n": n},
    }


_OUTPUTS = [
    {"name": "sound", "type": "m4a"},
    {"name": "film", "type": "mp4", "video": {"codec": "h264", "height": 32}},
]


def _await_deliveries(store: Store) -> None:
    waiting = sa.select(sa.func.count()).where(_event.status != OutboxStatus.DELIVERED)
    listener = store.database.listen(Topic.OUTBOX)
    try:
        while True:
            with store.database.snapshot() as connection:
                if connection.execute(waiting).scalar_one() == 0:
                    return
            listener.wait(1.0)
    finally:
        listener.close()


def _check_jobs(store: Store, done: Sequence[Job]) -> None:
    lives = read_lives(store)
    check_lives(lives)
    assert len({job.metadata["n"] for job in done}) == len(done)
    assert sorted(lives) == sorted(job.job_id for job in done), "same-key-same-job"
    assert {life.job.status for life in lives.values()} == {"succeeded"}


def _check_events(store: Store, installation: Installation) -> None:
    """Check that each delivery of an event had exactly the body that is in the outbox."""
    with store.database.snapshot() as connection:
        rows = connection.execute(sa.select(job_outbox_events)).all()
    written = {row.event_id: row.payload.encode() for row in rows}
    received = installation.receiver.bodies
    assert {event_id: set(bodies) for event_id, bodies in received.items()} == {
        event_id: {body} for event_id, body in written.items()
    }
    assert all(json.loads(body)["event_id"] == event_id for event_id, body in written.items())
    for row in rows:
        lease = (row.worker_id, row.lease_expires_at, row.heartbeat_at)
        assert lease == (None, None, None), f"no-lease-at-rest: {row.event_id}"


def _check_objects(bucket: Path, done: Sequence[Job]) -> None:
    """Check that the bucket has each output in full, and no other objects."""
    expected = {bucket / "tiny.mp4"}
    for job in done:
        (output,) = job.outputs
        path = bucket / output["url"].removeprefix(f"s3://{bucket.name}/")
        content = path.read_bytes()
        found = (len(content), sha256(content).hexdigest())
        assert found == (output["size_bytes"], output["sha256"]), job.job_id
        expected.add(path)
    assert {path for path in bucket.rglob("*") if path.is_file()} == expected
