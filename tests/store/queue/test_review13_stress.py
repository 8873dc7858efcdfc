"""Beats, steps, ends, repeated claims, releases of claims and sweeps of the same attempts at once."""

import random
import threading
import time

import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.leased_job import ProgressFigures
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.store.queue.attempt_answers import (
    AttemptKey,
    Completion,
    EndAnswer,
    FailedAttempt,
    ReleasedAttempt,
)
from euterpe.store.queue.attempt_reports import ReportedHeartbeat, ReportedStatus
from euterpe.store.queue.claims import ClaimRequest
from euterpe.store.store import Store
from tests.store.attempts import check_path
from tests.store.jobs import enqueue

SECONDS = 12


@pytest.fixture(params=["postgres", "sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_all_reports_of_the_same_attempts_at_once(url: str, ring: object) -> None:
    with Store(url, ring, sweep_every_ms=0) as store:  # type: ignore[arg-type]
        jobs = []
        for n in range(600):
            jobs += enqueue(store, 1, group_id=f"g{n % 4}" if n % 2 else None, max_attempts=3)
        seen: dict[AttemptKey, None] = {}
        firsts: dict[tuple, object] = {}
        errors: list[BaseException] = []
        stop = time.monotonic() + SECONDS
        lock = threading.Lock()

        def some() -> list[AttemptKey]:
            with lock:
                keys = list(seen)[-25:]
            return random.sample(keys, min(len(keys), random.randint(1, 8)))

        def loop(step):  # type: ignore[no-untyped-def]
            def run() -> None:
                while time.monotonic() < stop and not errors:
                    try:
                        step()
                    except BaseException as error:
                        errors.append(error)
                    time.sleep(0.002)

            return threading.Thread(target=run)

        def claim() -> None:
            ids = [f"c{random.randrange(3000)}" for _ in range(4)]
            for some_jobs in store.inbox.claim_for(
                [ClaimRequest("w", 2, ("default",), random.choice([20, 300]), one) for one in ids]
            ):
                with lock:
                    for job in some_jobs:
                        seen[AttemptKey(job.job_id, job.attempt_id, job.claim_version)] = None

        def beat() -> None:
            if keys := some():
                store.attempt_reports.heartbeat(
                    [
                        ReportedHeartbeat(
                            key=k,
                            lease_ms=100,
                            progress=ProgressFigures(random.random() * 100),
                            timings={"a": 1},
                        )
                        for k in keys
                    ]
                )

        def step() -> None:
            if keys := some():
                store.attempt_reports.advance(
                    [
                        ReportedStatus(
                            key=k,
                            status=random.choice(
                                [JobStatus.FETCHING, JobStatus.PROCESSING, JobStatus.UPLOADING]
                            ),
                            lease_ms=100,
                        )
                        for k in keys
                    ]
                )

        def end() -> None:
            if not (keys := some()):
                return
            ends = [
                random.choice(
                    [
                        Completion(key=k, outputs=[]),
                        FailedAttempt(key=k, error=JobError(ErrorCode.SOURCE_UNREACHABLE, "x", "")),
                        ReleasedAttempt(key=k, reason=JobError(ErrorCode.SANDBOX_FAILED, "x", "")),
                        ReleasedAttempt(key=k),
                    ]
                )
                for k in keys
            ]
            for one, answer in zip(ends, store.attempt_ends.end(ends), strict=True):
                if isinstance(answer, EndAnswer):
                    name = (one.key, type(one))
                    with lock:
                        if firsts.setdefault(name, answer) != answer:
                            raise AssertionError((name, firsts[name], answer))

        def sweep() -> None:
            store.inbox.sweep()

        def release() -> None:
            for key in store.inbox.held_by(f"c{random.randrange(3000)}"):
                store.attempt_ends.end([ReleasedAttempt(key=key)])

        threads = [loop(s) for s in (claim, claim, beat, beat, step, end, end, sweep, release)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, repr(errors[:2])
        for job_id in jobs:
            check_path(store, job_id)
        print(len(seen), "attempts", len(firsts), "answers")
