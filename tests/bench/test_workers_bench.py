"""Test the parts of `ci/bench workers`: percentiles, counts, and a small fleet against an API."""

import asyncio
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ci.workers_parts.fleet import Enqueuer, Fleet
from ci.workers_parts.usage import Usage, claims_in, percentile
from euterpe.bench.figures import BenchFailed
from euterpe.bench.programs import Installation
from euterpe.crypto import keyfile
from euterpe.domain.scopes import Scope
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import JobStatus
from euterpe.settings import Settings
from tests.free_port import free_port


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        (range(1, 101), 50, 50),
        (range(1, 101), 99, 99),
        (range(100, 0, -1), 99, 99),
        ([7], 50, 7),
        ([1, 2, 3], 50, 2),
        ([1, 2, 3], 99, 3),
        ([1, 2], 0, 1),
    ],
)
def test_a_percentile_is_one_of_the_values(values: list[float], percent: int, expected: float) -> None:
    assert percentile(values, percent) == expected


def test_the_usage_between_two_readings() -> None:
    first = Usage(
        seconds=100.0,
        api_cpu=7.0,
        postgres_cpu=3.0,
        fleet_cpu=1.0,
        transactions=1000,
        writes=500,
        requests=40,
        beats=5,
        ended=10,
    )
    second = Usage(
        seconds=110.0,
        api_cpu=9.0,
        postgres_cpu=4.0,
        fleet_cpu=6.0,
        transactions=1310,
        writes=700,
        requests=1040,
        beats=105,
        ended=110,
    )
    used = second - first
    assert (used.api_share, used.fleet_share) == (0.2, 0.5)
    assert (used.api_ms_per_request, used.postgres_ms_per_request) == (2.0, 1.0)
    assert (used.transactions_per_life, used.writes_per_life) == (3.0, 2.0)


def test_claims_are_counted_in_the_log_of_postgres() -> None:
    claim = "LOG:  execute _pg3_1: SELECT job_id\n\tFROM inbox_jobs, paused_at\n\tFOR UPDATE SKIP LOCKED\n"
    sweep = "LOG:  execute _pg3_2: SELECT job_id\n\tFROM inbox_jobs\n\tFOR UPDATE SKIP LOCKED\n"
    other = "LOG:  execute _pg3_3: SELECT paused_at\n\tFROM queues\n"
    assert claims_in(claim + sweep + claim + other) == 2


@pytest.fixture
def installation(url: str, tmp_path: Path) -> Installation:
    """Return an installation. Do not check for remaining rows, because the API stores a lease token key."""
    keks = tmp_path / "keks.json"
    keyfile.create_file(keks)
    environ = {"EUTERPE_DATABASE_URL": url, "EUTERPE_KEK_FILE": str(keks)}
    settings = Settings(database_url=url, kek_file=keks)
    return Installation(settings, {"PATH": os.environ["PATH"], **environ})


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_small_fleet_runs_all_jobs(installation: Installation) -> None:
    places = {"source": {"url": "s3://in/a.mov"}, "output": {"url": "s3://out/a/"}}
    spec = parse_spec({**places, "profile": "h264-720p", "queue": "bench"})
    with installation.open() as store, installation.running("api", "--port", "0") as api:
        address = urlsplit(api.address())
        keys = [store.requesters.create(f"worker-{n}", [Scope.WORKER]).api_key for n in range(5)]
        requester_id = store.requesters.create("requester").requester_id
        servers = [(str(address.hostname), int(address.port or 0))]
        fleet = Fleet(servers, keys, "bench", workers=5, job_s=0.02)
        enqueuer = Enqueuer(store, spec, requester_id)

        async def scenario() -> list[float]:
            await enqueuer.run(40.0, 0.5)
            waits = await enqueuer.waits_ms(fleet.tally)
            while fleet.tally.answered["complete"] < len(waits):
                await asyncio.sleep(0.01)
            return waits

        waits = asyncio.run(fleet.run(scenario, most_s=60.0))
        rows = store.jobs.many(list(enqueuer.enqueued_at), requester_id=requester_id)
    assert len(waits) == len(rows) > 0
    assert {row.status for row in rows} == {JobStatus.SUCCEEDED}
    assert {row.attempt_count for row in rows} == {1}
    assert min(waits) > 0
    assert (fleet.tally.failures, fleet.busy) == ([], 0)


def test_a_fleet_that_does_not_end_in_time_is_reported() -> None:
    fleet = Fleet([("127.0.0.1", free_port())], ["key"] * 2, "bench", workers=2, job_s=1.0)

    async def scenario() -> None:
        raise AssertionError("no worker could connect")

    with pytest.raises(BenchFailed, match=r"within 0\.2 s"):
        asyncio.run(fleet.run(scenario, most_s=0.2))
    assert fleet.tally.failures
    assert not any(failure.is_5xx for failure in fleet.tally.failures)
