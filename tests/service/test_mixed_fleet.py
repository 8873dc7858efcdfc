"""Run two workers as processes: the first lacks something that the job needs, and the second runs the job."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from euterpe.client import Client
from euterpe.media.ffmpeg import find_ffmpeg
from tests.service.installation import Installation

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def incomplete_ffmpeg(path: Path, encoder: str) -> Path:
    """Write a program that runs ffmpeg, but does not list this encoder."""
    ffmpeg, grep = find_ffmpeg(), shutil.which("grep")
    listed = f'"{ffmpeg}" "$@" | {grep} -v {encoder}'
    path.write_text(f'#!/bin/sh\nif [ "$2" = -encoders ]; then {listed}; else exec "{ffmpeg}" "$@"; fi\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("lack", ["root", "endpoint", "encoder"])
def test_a_job_that_one_worker_cannot_run_succeeds_on_the_other(
    installation: Installation, tmp_path: Path, lack: str
) -> None:
    (share := tmp_path / "share").mkdir()
    installation.environ["EUTERPE_STORAGE_ROOTS"] = str(share)
    lacking, fields, code = {
        "root": (
            {"EUTERPE_STORAGE_ROOTS": ""},
            {"output": {"url": f"file://{share}/out/"}},
            "storage_root_missing",
        ),
        "endpoint": ({"EUTERPE_STORAGE_ENDPOINTS": ""}, {}, "storage_endpoint_missing"),
        "encoder": (
            {"EUTERPE_FFMPEG": str(incomplete_ffmpeg(tmp_path / "ffmpeg", "libx264"))},
            {},
            "ffmpeg_incomplete",
        ),
    }[lack]
    api = installation.start("api", "--port", "0")
    first = installation.start("worker", **lacking)
    dispatcher = installation.start("dispatcher")
    if lack == "encoder":
        first.await_log("ffmpeg_is_incomplete")
    with Client(api.address(), installation.api_key) as client:
        job = client.submit(installation.request("clip.mp4", **given(installation, fields)))
        first.await_log("attempt_not_charged")
        waiting = client.status(job.job_id)
        assert (waiting.status, waiting.error and waiting.error["code"]) == ("queued", code)
        second = installation.start("worker")
        # Stop the first worker. Otherwise, this worker could claim and release the job again, and each
        # release would make the pause before the next claim longer.
        assert first.stop() == 0
        installation.receiver.await_event(job.job_id, "job.succeeded")
        assert client.status(job.job_id).status == "succeeded"
    with installation.store() as store:
        assert store.jobs.get(job.job_id).attempt_count == 1
        attempts = store.jobs.attempts(job.job_id)
    assert {attempt.error_code for attempt in attempts[:-1]} == {code}
    assert attempts[-1].outcome == "succeeded"
    assert [program.stop() for program in (api, second, dispatcher)] == [0, 0, 0]
    assert installation.leftovers() == []


def given(installation: Installation, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields. If `fields` is not empty, add credentials for the source."""
    return {**fields, "credentials": {"source": installation.s3.document()}} if fields else fields
