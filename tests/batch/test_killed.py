"""A submission that is killed half-way is completed by the next submission."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from euterpe.batch.jobs_file import read_batch
from tests.api.serving import Requester, Served
from tests.batch.manifests import cells, write
from tests.cli.command_runner import Cli
from tests.service.process_table import ProcessWatch, descendants
from tests.short_spark import JAVA_OPTIONS

ROWS = 300


@pytest.fixture
def kill_half_way(requester: Requester, folder: Path) -> Callable[[], None]:
    del requester  # the fixture sets the URL and the API key

    def run() -> None:
        """Run a submission in a process with its own Spark, and kill it."""
        processes = ProcessWatch()
        with subprocess.Popen(
            [sys.executable, "-m", "euterpe", "batch", "submit", "june.csv", "--max-in-flight", "4"],
            cwd=folder,
            env={**os.environ, "JDK_JAVA_OPTIONS": JAVA_OPTIONS},
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            line = next((line for line in process.stderr if "rows are submitted" in line), "nothing")
            processes.watch(descendants(process.pid))
            process.kill()
            process.stderr.read()
        assert line.startswith("30 of 300"), line
        processes.await_the_end()
        processes.close()

    return run


def test_every_row_is_one_job_though_the_submission_was_killed(
    kill_half_way: Callable[[], None], with_spark: Cli, requester: Requester, served: Served, folder: Path
) -> None:
    write(folder / "june.csv", [cells(n) for n in range(ROWS)])
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("JAVA_HOME")
        kill_half_way()
    there = served.store.jobs.unfinished(requester.id, at_most=2 * ROWS)
    assert 30 <= there < ROWS
    assert len(read_batch(Path("june.csv.jobs")).submitted) <= there
    counts = with_spark("batch", "submit", "june.csv", "--json").json
    assert (counts["accepted"], counts["already_there"]) == (ROWS - there, there)
    assert served.store.jobs.unfinished(requester.id, at_most=2 * ROWS) == ROWS
    assert len({each.job_id for each in read_batch(Path("june.csv.jobs")).submitted}) == ROWS
