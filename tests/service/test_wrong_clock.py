"""A remote worker whose wall clock is wrong by an hour: only the time that passes counts for a lease."""

import json
import os
import re
import signal
import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from euterpe.client import Client
from euterpe.domain.states import IN_PROGRESS
from euterpe.store.store import Store
from tests.service.installation import Installation, Program
from tests.service.process_table import descendants

_LEASE_MS = 2_000
_POLL_S, _LONGEST_POLLS = 0.1, 600
_HLS = {"name": "hls", "type": "hls", "video": {"codec": "h264", "ladder": [90]}}
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("wrong_by_s", [-3_600, 3_600])
def test_a_worker_with_a_wrong_clock_keeps_its_lease_and_publishes(
    installation: Installation, media: Path, tmp_path: Path, wrong_by_s: int
) -> None:
    # An object store can refuse requests whose signatures have a wrong time, so the media are in a folder.
    installation.environ["EUTERPE_STORAGE_ROOTS"] = str(media)
    lease = {"EUTERPE_LEASE_TTL_MS": str(_LEASE_MS), "EUTERPE_HEARTBEAT_INTERVAL_MS": "400"}
    api, dispatcher = installation.start("api", "--port", "0", **lease), installation.start("dispatcher")
    encoding = installation.receiver.signal_when(lambda event: event.status == "processing")
    server = api.address()
    with (
        Client(server, installation.api_key) as client,
        installation.store() as store,
        ExitStack() as ended,
    ):
        worker = _worker(installation, tmp_path, server, wrong_by_s)
        ended.callback(_kill, worker)
        job = client.submit(
            {
                "source": {"url": f"file://{media}/long.mp4"},
                "output": {"url": f"file://{media}/out/{wrong_by_s}/"},
                "outputs": [_HLS],
                "status_webhook_url": installation.receiver.hook_url,
                "webhook_events": ["processing"],
            }
        )
        assert encoding.wait(60)
        _hold_for_a_whole_lease(store, worker, job.job_id)
        done = client.wait(job.job_id, timeout=60).raise_for_failure()
        (attempt,) = store.jobs.attempts(job.job_id)
        assert worker.stop() == 0
    assert (done.status, done.attempt_count, attempt.outcome) == ("succeeded", 1, "succeeded")
    assert list((media / "out" / str(wrong_by_s)).rglob("*.m3u8"))
    assert [program.stop() for program in (dispatcher, api)] == [0, 0]
    assert "lease_ran_out" not in "".join(worker.log)
    _check_clock(worker.log, wrong_by_s)


def _worker(installation: Installation, folder: Path, server: str, wrong_by_s: int) -> Program:
    made = json.loads(installation.run("worker-key", "create", "wrong-clock", "--json"))
    kept = {"EUTERPE_STORAGE_ROOTS", "EUTERPE_WORK_DIR", "PATH"}
    environ = {
        **{name: value for name, value in installation.environ.items() if name in kept},
        "EUTERPE_SERVER": server,
        "EUTERPE_API_KEY": made["api_key"],
        "EUTERPE_WORKER_SLOTS": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    return Program((str(wrong_by_s), "worker"), environ, folder, module=("tests.service.wrong_clock",))


def _kill(worker: Program) -> None:
    if worker.is_running:
        worker.kill()


def _hold_for_a_whole_lease(store: Store, worker: Program, job_id: str) -> None:
    """Stop the job's ffmpeg until the end of the job's lease has moved by more than `_LEASE_MS`."""
    ffmpeg = _encoder(worker)
    os.kill(ffmpeg, signal.SIGSTOP)
    try:
        first_end = store.jobs.get(job_id).lease_expires_at
        assert first_end is not None
        for _ in range(_LONGEST_POLLS):
            row = store.jobs.get(job_id)
            assert row.status in IN_PROGRESS
            if row.lease_expires_at is not None and row.lease_expires_at > first_end + _LEASE_MS:
                return
            threading.Event().wait(_POLL_S)
        raise AssertionError("the lease was not extended")
    finally:
        os.kill(ffmpeg, signal.SIGCONT)


def _encoder(worker: Program) -> int:
    """Return the ffmpeg of the worker's only job. The worker's first child is its fork server."""
    for _ in range(_LONGEST_POLLS):
        children = descendants(worker.pid)
        if len(children) == 2:
            return children[1]
        threading.Event().wait(_POLL_S)
    raise AssertionError("no encode began")


def _check_clock(log: list[str], wrong_by_s: int) -> None:
    """Check that the clock of the worker was wrong: its log has the wrong times."""
    found = [match[0] for line in log if (match := _TIMESTAMP.search(line))]
    last = datetime.fromisoformat(found[-1])
    assert abs(last - datetime.now(UTC) - timedelta(seconds=wrong_by_s)) < timedelta(minutes=10)
