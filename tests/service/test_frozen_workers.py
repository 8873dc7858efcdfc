"""Workers that sleep past their leases, as on a suspended machine, and wake up with half-done work."""

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

_SHORT = {"EUTERPE_LEASE_TTL_MS": "2000", "EUTERPE_HEARTBEAT_INTERVAL_MS": "400"}

pytestmark = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def proxy(installation: Installation) -> Iterator[S3Proxy]:
    """Before the store; to both of them the operator lets jobs go."""
    proxy = S3Proxy(installation.s3)
    with Server(http_handler(proxy)) as server:
        installation.environ["EUTERPE_STORAGE_ENDPOINTS"] += f",http://{server.pair}"
        yield proxy


@pytest.fixture
def client(installation: Installation) -> Iterator[Client]:
    """Of an API and a dispatcher, without a worker."""
    api, dispatcher = installation.start("api", "--port", "0"), installation.start("dispatcher")
    with Client(api.address(), installation.api_key) as client:
        yield client
    assert (api.stop(), dispatcher.stop()) == (0, 0)


def test_what_was_frozen_while_it_encoded_changes_nothing(
    installation: Installation, client: Client, media: Path
) -> None:
    encodes = installation.receiver.hears(
        lambda event: (event.type, event.status) == ("job.progress", "processing")
    )
    sleeper = installation.start("worker", **_SHORT)
    asked = ["processing", "progress", "succeeded"]
    job = client.submit(installation.request("long.mp4", webhook_events=asked))
    assert encodes.wait(60)
    _freeze(installation, sleeper, job.job_id)
    assert len(descendants(sleeper.pid)) == 2  # the fork server, and ffmpeg
    _finish_by_another(installation, job.job_id)
    before = _all_of(installation, job.job_id, media / "out" / "mp4.mp4")
    _check_awakening(installation, client, sleeper)
    assert _all_of(installation, job.job_id, media / "out" / "mp4.mp4") == before


def test_what_was_frozen_while_it_uploaded_publishes_nothing(
    installation: Installation, proxy: S3Proxy, client: Client, media: Path
) -> None:
    make_noise(media / "noise.mp4")
    sleeper, gate = installation.start("worker", **_SHORT), proxy.gate("PUT", "partNumber=1")
    film = {"name": "film", "type": "mp4", "video": {"codec": "h264", "crf": 0}, "audio": None}
    keys = installation.s3.document(
        endpoint=installation.environ["EUTERPE_STORAGE_ENDPOINTS"].rpartition(",")[2]
    )
    job = client.submit(
        {**installation.request("noise.mp4", outputs=[film], credentials=keys), "profile": None}
    )
    with gate.held():
        _freeze(installation, sleeper, job.job_id)
        _finish_by_another(installation, job.job_id)
        before = _all_of(installation, job.job_id, media / "out" / "film.mp4")
    _check_awakening(installation, client, sleeper)
    assert _all_of(installation, job.job_id, media / "out" / "film.mp4") == before
    assert (proxy.count("POST", "uploadId="), proxy.count("DELETE", "uploadId=")) == (1, 1)


def _freeze(installation: Installation, worker: Program, job_id: str) -> None:
    """Not within a transaction: until it ends, or Postgres ends it, nobody else could have the job."""
    os.kill(worker.pid, signal.SIGSTOP)
    while _is_locked(installation, job_id):
        os.kill(worker.pid, signal.SIGCONT)
        _is_locked(installation, job_id)  # waits for the end of the transaction
        os.kill(worker.pid, signal.SIGSTOP)


def _is_locked(installation: Installation, job_id: str) -> bool:
    """Whether this job cannot be written to, for a second."""
    url = installation.environ["EUTERPE_DATABASE_URL"]
    is_sqlite = sqlite_file(url) is not None
    patience = {"timeout": 1, "isolation_level": None} if is_sqlite else {"options": "-c lock_timeout=1s"}
    row = "SELECT 1 FROM inbox_jobs WHERE job_id = :job_id FOR UPDATE"
    engine = sa.create_engine(url, connect_args=patience)
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("BEGIN IMMEDIATE" if is_sqlite else row), {"job_id": job_id})
    except sa.exc.OperationalError:
        return True
    finally:
        engine.dispose()
    return False


def _finish_by_another(installation: Installation, job_id: str) -> None:
    other = installation.start("worker", **_SHORT)
    installation.receiver.await_event(job_id, "job.succeeded", timeout_s=120)
    assert other.stop() == 0


def _check_awakening(installation: Installation, client: Client, sleeper: Program) -> None:
    """It notices, leaves nothing, and goes on with the next job."""
    os.kill(sleeper.pid, signal.SIGCONT)
    sleeper.await_log("lease_lost")
    assert len(descendants(sleeper.pid)) == 1, "nothing-left: processes"
    assert list(installation.work.glob("*/*-*/")) == [], "nothing-left: files"
    following = client.submit(installation.request("clip.mp4", profile="audio-aac"))
    assert client.wait(following.job_id, timeout=60).status == "succeeded"
    assert sleeper.stop() == 0
    assert list(installation.work.iterdir()) == []


def _all_of(installation: Installation, job_id: str, film: Path) -> Mapping[str, object]:
    """All that a stale write could change."""
    with installation.store() as store, store.database.snapshot() as connection:
        written = {
            table.name: [
                tuple(row) for row in connection.execute(sa.select(table).where(table.c.job_id == job_id))
            ]
            for table in (inbox_jobs, job_attempts)
        }
        payload = job_outbox_events.c.payload
        told = sa.select(payload).where(job_outbox_events.c.job_id == job_id)
        written["told"] = sorted(connection.execute(told).scalars())
    status = film.stat()
    return {**written, "file": (status.st_ino, status.st_mtime_ns, status.st_size)}
