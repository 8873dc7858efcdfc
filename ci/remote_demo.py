"""Demonstrate a remote worker.

This process runs the API and the dispatcher. A second process runs the worker. The worker has the URL of the
API and a key, but no access to the database. Source and output are in S3, and no media passes through the
API.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from euterpe import logs
from euterpe.cli.demo.clip import SECONDS, make_clip
from euterpe.cli.demo.collector import Collector, collecting
from euterpe.cli.output import out
from euterpe.client import Client
from euterpe.crypto import keyfile
from euterpe.domain.scopes import Scope
from euterpe.settings import Settings, load
from euterpe.store.engine.migrations import migrate
from euterpe.wiring.database import open_database, ring_file
from euterpe.wiring.services import Services, running
from tests.s3 import S3Server, serving_s3

_JOB_S = 120.0
_BUCKET = "media"


def main() -> None:
    parser = argparse.ArgumentParser(prog="ci/demo --remote", description=__doc__)
    parser.add_argument("--dir", type=Path, help="an empty folder; by default a new folder here")
    folder = _empty_folder(parser, parser.parse_args().dir)
    (folder / "s3").mkdir()
    with (
        (folder / "server.log").open("w") as log,
        serving_s3(folder / "s3") as s3,
        collecting(lambda event: out(f"webhook    {event.status}, signed and verified")) as collector,
    ):
        logs.configure("info", log)
        clip = make_clip(s3.bucket(_BUCKET))
        out(f"storage    {s3.endpoint} (rclone), with s3://{_BUCKET}/{clip.name}, {SECONDS} s of 1280×720")
        _run(folder, _settings(folder, s3, collector), s3, collector)
    out(f"everything is in {folder}: the database, the logs, the clip and the output")


def _empty_folder(parser: argparse.ArgumentParser, folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="euterpe-demo-", dir=Path.cwd()))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        parser.error(f"{folder} is not empty")
    return folder.resolve()


def _settings(folder: Path, s3: S3Server, collector: Collector) -> Settings:
    """Return the settings of the server. These settings override the environment variables."""
    (folder / "work").mkdir()
    return load(
        database_url=f"sqlite:///{folder / 'euterpe.db'}",
        kek_file=folder / "keks.json",
        keks=None,
        key_provider="local",
        vault_url=None,
        server=None,
        work_dir=folder / "work",
        storage_endpoints=(s3.endpoint,),
        egress_allow=(collector.address,),
    )


def _run(folder: Path, settings: Settings, s3: S3Server, collector: Collector) -> None:
    with closing(open_database(settings)) as database:
        migrate(database)
    keyfile.create_file(ring_file(settings))
    with running(settings) as services:
        requester = services.store.requesters.create("demo")
        worker_key = services.store.requesters.create("worker-1", [Scope.WORKER]).api_key
        collector.trust(requester.webhook_secret)
        server = services.open_api("127.0.0.1", 0)
        services.start_dispatcher()
        server.start()
        out(f"server     process {os.getpid()}: API and dispatcher, {server.url}, on SQLite")
        with (
            _remote_worker(folder / "worker", server.url, worker_key, s3),
            Client(server.url, requester.api_key) as client,
        ):
            job = client.submit(
                source=f"s3://{_BUCKET}/sample.mp4",
                output=f"s3://{_BUCKET}/made/",
                profile="h264-720p",
                credentials=s3.document(),
                status_webhook_url=f"http://{collector.address}/hook",
            )
            out(f"job        {job.job_id}, with credentials that are sealed to the worker")
            done = client.wait(job.job_id, timeout=_JOB_S).raise_for_failure()
            collector.await_end()
            for output in done.outputs:
                out(f"output     {output['url']}, {output['size_bytes']} bytes")
            _show_attempts(services, job.job_id)
    out("stopped    the worker, the dispatcher and the API")


@contextmanager
def _remote_worker(folder: Path, server: str, api_key: str, s3: S3Server) -> Iterator[None]:
    """Run a remote worker in a process whose environment names no database. Stop the worker at the end."""
    folder.mkdir()
    environ = {
        "PATH": os.environ["PATH"],
        "EUTERPE_API_KEY": api_key,
        "EUTERPE_WORK_DIR": str(folder),
        "EUTERPE_STORAGE_ENDPOINTS": s3.endpoint,
        "EUTERPE_REQUIRE_SANDBOX": "false",  # the only media is the clip of this demo
    }
    command = [sys.executable, "-m", "euterpe", "worker", "--server", server]
    with (
        folder.with_suffix(".log").open("w") as log,
        subprocess.Popen(command, cwd=folder, env=environ, stderr=log) as worker,
    ):
        out(f"worker     process {worker.pid}: euterpe worker --server {server}, with a worker key")
        try:
            yield
        finally:
            worker.terminate()


def _show_attempts(services: Services, job_id: str) -> None:
    for attempt in services.store.jobs.attempts(job_id):
        out(f"attempt    by the worker {attempt.worker_id}: {attempt.outcome}")


if __name__ == "__main__":
    main()
