"""Test `ci/demo --remote`: a server and a remote worker as two processes, in an empty folder."""

import json
import subprocess
import sys
from pathlib import Path

from euterpe.media.ffmpeg import find_ffmpeg
from tests.s3 import SECRET_ACCESS_KEY

ROOT = Path(__file__).parents[2]


def test_a_remote_worker_runs_the_job_of_the_demo(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "ci.remote_demo", "--dir", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = [line.partition(" ")[::2] for line in ended.stdout.splitlines()]
    told = {word: rest.strip() for word, rest in lines}
    webhooks = [rest.strip().partition(",")[0] for word, rest in lines if word == "webhook"]
    assert sorted(webhooks) == sorted(("claimed", "fetching", "processing", "uploading", "succeeded"))

    server, worker = (told[name].split()[1].rstrip(":") for name in ("server", "worker"))
    assert server != worker
    done = _event(folder / "worker.log", "job_succeeded")
    assert done["job_id"] == told["job"].partition(",")[0]
    assert told["attempt"] == f"by the worker {done['worker_id']}: succeeded"
    url, _, size = told["output"].partition(", ")
    output = folder / "s3" / url.removeprefix("s3://")
    assert size == f"{output.stat().st_size} bytes"
    played = [str(find_ffmpeg()), "-v", "error", "-i", str(output), "-f", "null", "-"]
    assert subprocess.run(played, capture_output=True, check=True).stderr == b""

    logs = (folder / "worker.log").read_text() + (folder / "server.log").read_text()
    assert SECRET_ACCESS_KEY not in logs + ended.stdout
    assert not list((folder / "worker").iterdir())


def _event(log: Path, name: str) -> dict[str, object]:
    """Return the only entry of the log with this event."""
    (entry,) = [
        found for line in log.read_text().splitlines() if (found := json.loads(line))["event"] == name
    ]
    return dict(entry)
