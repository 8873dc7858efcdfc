"""Test that a dry run, `euterpe plan` and a worker make the same plan of one source."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from euterpe.domain.spec import parse_spec
from euterpe.worker.dry_run import DryRunLimits, DryRuns
from tests.service.worker_harness import WorkerHarness

pytest_plugins = ("tests.service.worker_fixtures",)

FILM: dict[str, Any] = {"name": "film", "type": "mp4", "video": {"height": 90}}
HLS: dict[str, Any] = {"name": "hls", "type": "hls", "video": {"ladder": [90]}, "start": 0.5}
LOUD: dict[str, Any] = {"name": "loud", "type": "m4a", "audio": {"loudness": {"target": -16}}}
POSTER: dict[str, Any] = {"name": "poster", "type": "image", "at": ["50%"]}


def hash_of_the_command(source: Path, outputs: list[dict[str, Any]], folder: Path) -> str:
    spec = folder / "job.json"
    spec.write_text(json.dumps({"outputs": outputs}))
    command = [sys.executable, "-m", "euterpe", "plan", str(source), "--spec", str(spec), "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return str(json.loads(done.stdout)["plan_hash"])


@pytest.mark.parametrize("outputs", [[FILM, HLS, POSTER], [LOUD]], ids=["pictures", "measured"])
def test_a_dry_run_a_command_and_a_worker_have_the_same_plan_hash(
    harness: WorkerHarness, bucket: Path, tmp_path: Path, outputs: list[dict[str, Any]]
) -> None:
    with capture_logs() as logs:
        job = harness.await_end(harness.submit(credentials=harness.keys, outputs=outputs))
    assert job.status == "succeeded", job.last_error
    (planned,) = [entry["plan_hash"] for entry in logs if entry["event"] == "planned"]
    tools = harness.tools
    dry_runs = DryRuns(tools.storage, tools.sandbox, tmp_path, DryRunLimits(tools.max_source_bytes))
    places = {"source": {"url": f"s3://{bucket.name}/clip.mp4"}, "output": {"url": f"s3://{bucket.name}/o/"}}
    found = dry_runs.plan(parse_spec({**places, "outputs": outputs, "credentials": harness.keys}))
    assert found["plan_hash"] == planned
    assert hash_of_the_command(bucket / "clip.mp4", outputs, tmp_path) == planned
