"""Run remote workers: one of an old release, one that lacks storage and an encoder, and a complete one."""

from pathlib import Path
from typing import Any

import pytest

from euterpe.client import Client
from tests.service.installation import Installation
from tests.service.store.processes.invariants import check_lives, read_lives
from tests.service.test_mixed_fleet import incomplete_ffmpeg

SOUND = {"profile": "audio-aac"}


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_what_one_remote_worker_lacks_costs_no_attempt_and_another_worker_runs_it(
    installation: Installation, media: Path, tmp_path: Path
) -> None:
    (share := tmp_path / "share").mkdir()
    roots, clip = f"{media},{share}", {"url": f"file://{media}/clip.mp4"}
    here, there = {"url": f"file://{media}/mixed/"}, {"url": f"file://{share}/mixed/"}
    s3 = {"source": {"url": "s3://media/clip.mp4"}, "credentials": {"source": installation.s3.document()}}
    jobs: dict[str, dict[str, Any]] = {
        "spec_not_understood": {"source": clip, "output": here, **SOUND, "queue": "old"},
        "storage_root_missing": {"source": clip, "output": there, **SOUND},
        "storage_endpoint_missing": {**s3, "output": here, **SOUND},
        "ffmpeg_incomplete": {"source": clip, "output": here, "profile": "h264-720p"},
    }
    api = installation.start("api", "--port", "0", EUTERPE_STORAGE_ROOTS=roots)
    server = api.address()
    module = ("tests.service.older_release", "external_id")
    old = installation.start_remote_worker(
        server, module=module, EUTERPE_STORAGE_ROOTS=roots, EUTERPE_WORKER_QUEUES="old"
    )
    lacking = installation.start_remote_worker(
        server,
        EUTERPE_STORAGE_ROOTS=str(media),
        EUTERPE_STORAGE_ENDPOINTS="",
        EUTERPE_FFMPEG=str(incomplete_ffmpeg(tmp_path / "ffmpeg", "libx264")),
    )
    with Client(server, installation.api_key) as client:
        job_ids = {code: client.submit({**job, "max_attempts": 1}).job_id for code, job in jobs.items()}
        for code in job_ids:
            worker = old if code == "spec_not_understood" else lacking
            worker.await_log(f'"code": "{code}"')
        # Stop these workers. Otherwise, they could claim and release the jobs again. Each release makes the
        # pause before the next claim longer.
        assert [worker.stop() for worker in (old, lacking)] == [0, 0]
        for code, job_id in job_ids.items():
            waiting = client.status(job_id)
            assert (waiting.status, waiting.attempt_count) == ("queued", 0)
            assert waiting.error is not None
            assert waiting.error["code"] == code
        complete = installation.start_remote_worker(
            server, EUTERPE_STORAGE_ROOTS=roots, EUTERPE_WORKER_QUEUES="default,old"
        )
        for job_id in job_ids.values():
            done = client.wait(job_id, timeout=60).raise_for_failure()
            assert (done.status, done.attempt_count) == ("succeeded", 1)
    assert [program.stop() for program in (complete, api)] == [0, 0]
    with installation.store() as store:
        check_lives(read_lives(store))
        attempts = {code: store.jobs.attempts(job_id) for code, job_id in job_ids.items()}
    for code, (*released, last) in attempts.items():
        assert {(one.outcome, one.error_code) for one in released} == {("released", code)}
        assert last.outcome == "succeeded"
        assert last.worker_id not in {one.worker_id for one in released}
    assert installation.leftovers() == []
