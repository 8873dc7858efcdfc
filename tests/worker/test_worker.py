"""Tests of a running worker: its slots, and faults and key rotations that delay no other job."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from euterpe.bench.sql import erase_jobs
from euterpe.control.store_plane import StorePlane
from euterpe.crypto.keyfile import activate_key, add_key, remove_key
from euterpe.crypto.local_key_ring import FileKeyRing
from euterpe.domain.leased_job import LeasedJob
from euterpe.domain.release_limits import ReleaseLimits
from euterpe.domain.rows import JobRow
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import FINISHED, JobStatus
from euterpe.store.engine.wakeup import Topic
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.store import Store
from euterpe.worker.tools import Tools
from euterpe.worker.worker import Worker, WorkerTimings
from tests.breaking_listener import BreakingListener
from tests.media.clips import Clips
from tests.worker.job_secrets import alter_seal, submit
from tests.worker.planes import store_plane

# With these limits, a job is not released if the worker lacks the job's storage: the job fails at once.
NO_RELEASES = ReleaseLimits(least_bounded=0, elsewhere_ms=0, one_worker_ms=0)
SOUND = {"outputs": [{"name": "sound", "type": "m4a", "audio": {"codec": "aac", "bitrate_kbps": 64}}]}


@contextmanager
def running_worker(tools: Tools, **options: Any) -> Iterator[Worker]:
    worker = Worker(tools, slots=1, **options)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(drain_s=60)


def wait_for_end(store: Store, job_id: str) -> JobRow:
    with closing(store.database.listen(Topic.INBOX)) as commits:
        while (job := store.jobs.get(job_id)).status not in FINISHED:
            assert commits.wait(60), f"the job stays {job.status}"
    return job


@pytest.fixture
def submit_sound(store: Store, clips: Clips, tmp_path: Path) -> Callable[[], str]:
    """Return a function that submits a job without credentials."""
    (tmp_path / "sound.m4a").write_bytes(clips.make("sound.m4a").read_bytes())
    source, numbers = {"url": f"file://{tmp_path}/sound.m4a"}, count()

    def submit_sound() -> str:
        urls = {"source": source, "output": {"url": f"file://{tmp_path}/out-{next(numbers)}/"}}
        return store.submit(parse_spec({**urls, **SOUND}), "r1").result(timeout=60).job_id

    return submit_sound


def test_jobs_whose_key_is_lost_delay_no_other(
    store: Store, tools: Tools, submit_sound: Callable[[], str]
) -> None:
    job_ids = [submit(store) for _ in range(4)]
    for job_id in job_ids:
        alter_seal(store, job_id, kek_id="k9")
    job_id = submit_sound()
    with capture_logs() as logs, running_worker(tools):
        assert wait_for_end(store, job_id).status == "succeeded"
    rows = [store.jobs.get(lost) for lost in job_ids]
    assert {(row.status, row.attempt_count, row.claim_version) for row in rows} == {("queued", 0, 1)}
    assert "claims_paused" not in [entry["event"] for entry in logs]


def test_a_rotation_reaches_a_worker_that_runs(url: str, store: Store, tools: Tools, tmp_path: Path) -> None:
    ring_file = tmp_path / "kek.json"
    add_key(ring_file, "k1")
    with (
        Store(url, FileKeyRing(ring_file), sweep_every_ms=0, release_limits=NO_RELEASES) as worker_store,
        Store(url, FileKeyRing(ring_file)) as api_store,
        store_plane(worker_store) as plane,
        running_worker(replace(tools, plane=plane)),
    ):
        for number in range(2, 5):
            activate_key(ring_file, add_key(ring_file, f"k{number}"))
            remove_key(ring_file, f"k{number - 1}")
            job_id = submit(api_store)
            assert store.rewrap.in_use() == {f"k{number}": 1}
            ended = wait_for_end(worker_store, job_id)
            assert ended.error_code == "endpoint_not_allowed", "the credentials must be opened"
            assert len(worker_store.jobs.attempts(job_id)) == 1
            erase_jobs(worker_store.database, "r1")


def test_claims_go_on_after_the_listener_broke(
    store: Store, tools: Tools, submit_sound: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unavailable database can break a claim and the listener. In this test, the claim fails first."""
    claim, claim_failed = store.inbox.claim, threading.Event()
    listener = BreakingListener(store.database.listen(Topic.INBOX), claim_failed)

    def claim_or_fail(*arguments: Any, **options: Any) -> list[ClaimedJob]:
        if not claim_failed.is_set():
            claim_failed.set()
            raise StoreUnavailable("it is away")
        return claim(*arguments, **options)

    monkeypatch.setattr(store.inbox, "claim", claim_or_fail)
    with (
        store_plane(store, listener=listener) as plane,
        running_worker(replace(tools, plane=plane), timings=WorkerTimings(poll_s=0.03)),
    ):
        assert listener.broke.wait(60)
        assert wait_for_end(store, submit_sound()).status == "succeeded"


def test_a_claim_may_wait_longer_than_the_pause_after_a_failure(
    plane: StorePlane, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A remote worker's claim can wait for a long time, but after an outage the next claim is sent soon."""
    waits, came_again = list[float](), threading.Event()

    def claim(_: int, *, wait_s: float) -> list[LeasedJob]:
        waits.append(wait_s)
        if len(waits) == 1:
            raise StoreUnavailable("it is away")
        came_again.set()
        plane.wait(wait_s)
        return []

    monkeypatch.setattr(plane, "claim", claim)
    timings = WorkerTimings(poll_s=0.01, claim_wait_s=3600.0)
    with running_worker(tools, timings=timings):
        assert came_again.wait(60)
    assert set(waits) == {3600.0}


class CountedPlane:
    """A patched plane that counts the attempts of a worker with one slot.

    A publication waits until a second publication begins.
    """

    def __init__(self, plane: StorePlane, patch: pytest.MonkeyPatch) -> None:
        self._plane, self._claim, self._advance = plane, plane.claim, plane.advance
        self._prove, self._succeed = plane.prove, plane.succeed
        self.claimed = self.uploading = self.succeeded = 0
        self.claims = list[tuple[int, int]]()  # for each claim: (attempts in the slot, unfinished attempts)
        self._pair, self._lock = threading.Barrier(2), threading.Lock()
        for name in ("claim", "advance", "prove", "succeed"):
            patch.setattr(plane, name, getattr(self, name))

    def claim(self, limit: int, *, wait_s: float) -> Sequence[LeasedJob]:
        self.claims.append((self.claimed - self.uploading + limit, self.claimed - self.succeeded + limit))
        jobs = self._claim(limit, wait_s=wait_s)
        self.claimed += len(jobs)
        return jobs

    def advance(self, job: LeasedJob, source: JobStatus, target: JobStatus, values: Any) -> bool:
        with self._lock:
            self.uploading += target is JobStatus.UPLOADING
        return self._advance(job, source, target, values)

    def prove(self, job: LeasedJob, *, refers: bool) -> bool:
        self._pair.wait(60)
        return self._prove(job, refers=refers)

    def succeed(self, *arguments: Any) -> bool:
        with self._lock:
            self.succeeded += 1
        return self._succeed(*arguments)


def test_an_upload_leaves_its_slot_to_one_more_attempt(
    store: Store,
    plane: StorePlane,
    tools: Tools,
    submit_sound: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = CountedPlane(plane, monkeypatch)
    with running_worker(tools):
        ended = [wait_for_end(store, job_id) for job_id in [submit_sound() for _ in range(4)]]
    assert {job.status for job in ended} == {"succeeded"}
    assert max(counted.claims) == (1, 2), "the slot runs one attempt, and one more attempt may upload"
    assert {in_slot for in_slot, _ in counted.claims} == {1}
