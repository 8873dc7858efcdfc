"""Test workers that are stopped (SIGSTOP) until their leases have expired, and then continue."""

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import sqlalchemy as sa

from euterpe.client import Client
from euterpe.store.engine.engines import sqlite_file
from euterpe.store.tables import inbox_jobs, job_attempts, job_outbox_events
from tests.net.servers import Server
from tests.service.clips import make_noise
from tests.service.installation import Installation, Program
from tests.service.process_table import descendants
from tests.service.worker_harness import S3Proxy
from tests.storage.fake_stores import http_handler

_SHORT_LEASE = {"EUTERPE_LEASE_TTL_MS": "2000", "EUTERPE_HEARTBEAT_INTERVAL_MS": "400"}

pytestmark = pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.soak)], indirect=True
)


@pytest.fixture
def proxy(installation: Installation) -> Iterator[S3Proxy]:
    """Yield a proxy in front of the object store. The settings allow the proxy and the store as endpoints."""
    proxy = S3Proxy(installation.s3)
    with Server(http_handler(proxy)) as server:
        installation.environ["EUTERPE_STORAGE_ENDPOINTS"] += f",http://{server.pair}"
        yield proxy


@pytest.fixture
def client(installation: Installation) -> Iterator[Client]:
    """Yield a client of an API and a dispatcher, without a worker."""
    api, dispatcher = installation.start("api", "--port", "0"), installation.start("dispatcher")
    with Client(api.address(), installation.api_key) as client:
        yield client
    assert (api.stop(), dispatcher.stop()) == (0, 0)


def test_a_worker_frozen_in_an_encode_changes_nothing(
    installation: Installation, client: Client, media: Path
) -> None:
    encoding = installation.receiver.signal_when(
        lambda event: (event.type, event.status) == ("job.progress", "processing")
    )
    frozen = installation.start("worker", **_SHORT_LEASE)
    events = ["processing", "progress", "succeeded"]
    job = client.submit(installation.request("long.mp4", webhook_events=events))
    assert encoding.wait(60)
    _freeze(installation, frozen, job.job_id)
    assert len(descendants(frozen.pid)) == 2  # the fork server, and ffmpeg
    _finish_by_another(installation, job.job_id)
    before = _state_of(installation, job.job_id, media / "out" / "mp4.mp4")
    _continue_and_check(installation, client, frozen)
    assert _state_of(installation, job.job_id, media / "out" / "mp4.mp4") == before


def test_a_worker_frozen_in_an_upload_publishes_nothing(
    installation: Installation, proxy: S3Proxy, client: Client, media: Path
) -> None:
    make_noise(media / "noise.mp4")
    frozen, gate = installation.start("worker", **_SHORT_LEASE), proxy.gate("PUT", "partNumber=1")
    video = {"name": "video", "type": "mp4", "video": {"codec": "h264", "crf": 0}, "audio": None}
    keys = installation.s3.document(
        endpoint=installation.environ["EUTERPE_STORAGE_ENDPOINTS"].rpartition(",")[2]
    )
    job = client.submit(
        {**installation.request("noise.mp4", outputs=[video], credentials=keys), "profile": None}
    )
    with gate.held():
        _freeze(installation, frozen, job.job_id)
        _finish_by_another(installation, job.job_id)
        before = _state_of(installation, job.job_id, media / "out" / "video.mp4")
    _continue_and_check(installation, client, frozen)
    assert _state_of(installation, job.job_id, media / "out" / "video.mp4") == before
    assert (proxy.count("POST", "uploadId="), proxy.count("DELETE", "uploadId=")) == (1, 1)


def _freeze(installation: Installation, worker: Program, job_id: str) -> None:
    """Stop the worker outside a transaction, because an open transaction would lock the row of the job."""
    os.kill(worker.pid, signal.SIGSTOP)
    while _is_locked(installation, job_id):
        os.kill(worker.pid, signal.SIGCONT)
        _is_locked(installation, job_id)  # wait until the transaction has ended
        os.kill(worker.pid, signal.SIGSTOP)


def _is_locked(installation: Installation, job_id: str) -> bool:
    """Return whether the row of the job stays locked for a second."""
    url = installation.environ["EUTERPE_DATABASE_URL"]
    is_sqlite = sqlite_file(url) is not None
    timeout = {"timeout": 1, "isolation_level": None} if is_sqlite else {"options": "-c lock_timeout=1s"}
    row = "SELECT 1 FROM inbox_jobs WHERE job_id = :job_id FOR UPDATE"
    engine = sa.create_engine(url, connect_args=timeout)
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("BEGIN IMMEDIATE" if is_sqlite else row), {"job_id": job_id})
    except sa.exc.OperationalError:
        return True
    finally:
        engine.dispose()
    return False


def _finish_by_another(installation: Installation, job_id: str) -> None:
    other = installation.start("worker", **_SHORT_LEASE)
    installation.receiver.await_event(job_id, "job.succeeded", timeout_s=120)
    assert other.stop() == 0


def _continue_and_check(installation: Installation, client: Client, frozen: Program) -> None:
    """Resume the frozen worker.

    Check that the worker notices the lost lease, leaves no process or file, and runs the next job.
    """
    os.kill(frozen.pid, signal.SIGCONT)
    frozen.await_log("lease_lost")
    assert len(descendants(frozen.pid)) == 1, "nothing-left: processes"
    assert list(installation.work.glob("*/*-*/")) == [], "nothing-left: files"
    following = client.submit(installation.request("clip.mp4", profile="audio-aac"))
    assert client.wait(following.job_id, timeout=60).status == "succeeded"
    assert frozen.stop() == 0
    assert list(installation.work.iterdir()) == []


def _state_of(installation: Installation, job_id: str, video: Path) -> Mapping[str, object]:
    """Return everything that a stale write could change."""
    with installation.store() as store, store.database.snapshot() as connection:
        written = {
            table.name: [
                tuple(row) for row in connection.execute(sa.select(table).where(table.c.job_id == job_id))
            ]
            for table in (inbox_jobs, job_attempts)
        }
        payload = job_outbox_events.c.payload
        payloads = sa.select(payload).where(job_outbox_events.c.job_id == job_id)
        written["payloads"] = sorted(connection.execute(payloads).scalars())
    status = video.stat()
    return {**written, "file": (status.st_ino, status.st_mtime_ns, status.st_size)}
