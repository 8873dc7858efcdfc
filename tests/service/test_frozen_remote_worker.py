"""A remote worker that is stopped (SIGSTOP) past its lease while it uploads, and then continues."""

import os
import signal
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from euterpe.client import Client
from euterpe.domain.states import JobStatus
from tests.net.servers import Server
from tests.service.clips import make_noise
from tests.service.installation import Installation
from tests.service.recording_proxy import recording_proxy
from tests.service.store.processes.invariants import check_lives, read_lives
from tests.service.worker_harness import S3Proxy
from tests.storage.fake_stores import http_handler

_SHORT_LEASE = {"EUTERPE_LEASE_TTL_MS": "2000", "EUTERPE_HEARTBEAT_INTERVAL_MS": "400"}
_VIDEO = {"name": "video", "type": "mp4", "video": {"codec": "h264", "crf": 0}, "audio": None}


@pytest.fixture
def proxy(installation: Installation) -> Iterator[S3Proxy]:
    """Yield a proxy in front of the object store. The settings allow workers only this endpoint."""
    proxy = S3Proxy(installation.s3)
    with Server(http_handler(proxy)) as server:
        installation.environ["EUTERPE_STORAGE_ENDPOINTS"] = f"http://{server.pair}"
        yield proxy


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_remote_worker_frozen_in_an_upload_publishes_nothing_over_the_newer_result(
    installation: Installation, proxy: S3Proxy, media: Path
) -> None:
    source, published = make_noise(media / "noise.mp4"), media / "out" / "video.mp4"
    api, gate = installation.start("api", "--port", "0", **_SHORT_LEASE), proxy.gate("PUT", "partNumber=1")
    server = api.address()
    keys = installation.s3.document(endpoint=installation.environ["EUTERPE_STORAGE_ENDPOINTS"])
    request = installation.request("noise.mp4", profile=None, outputs=[_VIDEO], credentials=keys)
    with Client(server, installation.api_key) as client, recording_proxy(server) as to_server:
        frozen = installation.start_remote_worker(to_server.url)
        job_id = client.submit(request).job_id
        with gate.held():
            assert any(update.status == "uploading" for update in client.watch(job_id))
            os.kill(frozen.pid, signal.SIGSTOP)
            # Change the source for the other worker, so the bytes of the output show who published them.
            source.write_bytes((media / "clip.mp4").read_bytes())
            other = installation.start_remote_worker(server)
            done = client.wait(job_id, timeout=60).raise_for_failure()
            winner, before = published.read_bytes(), published.stat()
        assert done.outputs[0]["sha256"] == sha256(winner).hexdigest()
        with to_server.held():
            # Heartbeats get no answer, so the worker does not know that its lease is lost. The worker must
            # ask the server before it publishes.
            os.kill(frozen.pid, signal.SIGCONT)
            to_server.await_request(b'"urgent": true')
        frozen.await_log("lease_lost")
        assert frozen.stop() == 0  # the worker has removed the parts that it sent
        assert client.status(job_id) == done
    assert (published.read_bytes(), published.stat().st_mtime_ns) == (winner, before.st_mtime_ns)
    assert (proxy.count("POST", "uploadId="), proxy.count("DELETE", "uploadId=")) == (0, 1)
    assert [program.stop() for program in (other, api)] == [0, 0]
    _check_life(installation, job_id)
    assert installation.leftovers() == []


def _check_life(installation: Installation, job_id: str) -> None:
    """Check that only the other worker's attempt succeeded, and that each step has one event.

    The frozen worker can have claimed the job twice. Its upload had left the slot, so it had already sent a
    claim for the free slot when it was frozen. The server cannot know that nobody reads the answer to this
    claim, so it can claim the same job again for the frozen worker.
    """
    with installation.store() as store:
        lives = read_lives(store)
    check_lives(lives)
    *lost, last = lives[job_id].attempts
    assert [attempt.outcome for attempt in lost] == ["lease_expired"] * len(lost)
    assert last.outcome == "succeeded"
    assert last.worker_id not in {attempt.worker_id for attempt in lost}
    statuses = lives[job_id].statuses
    assert statuses[:4] == ["claimed", "fetching", "processing", "uploading"]
    assert statuses.count(JobStatus.SUCCEEDED) == 1
