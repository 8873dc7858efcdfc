"""Test that remote workers lose no job and run no attempt twice, whatever faults the network has.

A faulty proxy loses, doubles, delays and reorders calls. The API is killed and started again. Workers are
killed, or frozen for longer than a lease.
"""

import logging
import time
from pathlib import Path

import pytest

from tests.service.remote_checks import check_fleet
from tests.service.remote_fleet import running_fleet

_log = logging.getLogger(__name__)
ERROR = '"level": "error"'
SEEDS, SOAK_SEEDS = range(3), range(10, 20)


def check_run(folder: Path, url: str, *, seed: int, jobs: int, disturbances: int) -> None:
    began = time.monotonic()
    with running_fleet(folder, url, seed=seed) as fleet:
        fleet.run(jobs, disturbances)
        fleet.stop_workers()
        replays = fleet.replay(jobs // 5)
        seconds = time.monotonic() - began
        figures = check_fleet(fleet)
        faults, ends = fleet.proxy.faults, fleet.proxy.ends.values()
    assert [line for line in fleet.api_log if ERROR in line] == []
    _log.info(
        "jobs %d, seconds %.1f, calls %d, faults %s, disturbances %s, repeated ends %d, replays %d, %s",
        jobs,
        seconds,
        fleet.proxy.calls,
        dict(faults),
        dict(fleet.disturbances),
        sum(len(end.answers) > 1 for end in ends),
        replays,
        figures,
    )


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_job_ends_once_and_no_answer_changes(tmp_path: Path, url: str, seed: int) -> None:
    check_run(tmp_path, url, seed=seed, jobs=500, disturbances=4)


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("seed", SOAK_SEEDS)
def test_every_job_of_many_ends_once(tmp_path: Path, url: str, seed: int) -> None:
    check_run(tmp_path, url, seed=seed, jobs=10_000, disturbances=60)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_the_storm_notices_a_replay_without_the_attempt_check(tmp_path: Path, url: str) -> None:
    with running_fleet(tmp_path, url, seed=0, api_module=("tests.service.broken_api",)) as fleet:
        fleet.run(30, 0)
        fleet.stop_workers()
        with pytest.raises(AssertionError, match="same-answer"):
            fleet.replay(30)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_the_storm_notices_a_unique_claim_id(tmp_path: Path, url: str) -> None:
    """A claim of two jobs writes its id twice, so a unique index on `claim_id` makes the claim fail.

    All claims in the same transaction fail, too.
    """
    with running_fleet(tmp_path, url, seed=0) as fleet:
        with fleet.store.database.transaction() as connection:
            connection.exec_driver_sql("CREATE UNIQUE INDEX broken ON job_attempts (claim_id)")
        fleet.enqueue(60)
        fleet.api.await_log(ERROR)
    assert any("UNIQUE constraint failed: job_attempts.claim_id" in line for line in fleet.api_log)
