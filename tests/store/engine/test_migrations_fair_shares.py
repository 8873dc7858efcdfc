"""Migration 0005 keeps every job of a database that was in use before fair shares."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.states import JobStatus, Lane
from euterpe.store.engine import migrations
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import EngineKind
from euterpe.store.queue.enqueue import new_row
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs
from tests.engines import Engine, Postgres
from tests.store.jobs import new_job

BEFORE = 4
_LEASE = {"worker_id": "w1", "lease_expires_at": 9_000_000_000_000, "heartbeat_at": 1}
STATES: dict[str, dict[str, Any]] = {
    "done": {"status": JobStatus.SUCCEEDED, "lane": Lane.REST, "finished_at": 5},
    "waiting": {"lane": Lane.READY},
    "leased": {"status": JobStatus.CLAIMED, "lane": Lane.LEASED, **_LEASE},
    "late": {"lane": Lane.DELAYED, "available_at": 9_000_000_000_000},
    "grouped": {"lane": Lane.BLOCKED, "group_id": "g"},
    "waiting too": {"lane": Lane.READY},
}


@pytest.fixture(params=["sqlite", "postgres"])
def older(
    request: pytest.FixtureRequest, tmp_path: Path, servers: Callable[[str], Engine]
) -> Iterator[Database]:
    """Yield a database of the schema before 0005, with a job in each lane."""
    server = servers("postgres") if request.param == "postgres" else None
    if isinstance(server, Postgres):
        with server.blank() as url:
            yield from _filled(url)
    else:
        yield from _filled(f"sqlite:///{tmp_path / 'older.db'}")


def _filled(url: str) -> Iterator[Database]:
    database = Database(url)
    migrations.migrate(database, up_to=BEFORE)
    with database.transaction() as connection:
        columns = [column["name"] for column in sa.inspect(connection).get_columns(inbox_jobs.name)]
        for name, state in STATES.items():
            job = new_job(job_id=name, group_id=state.get("group_id"))
            row = {**new_row(job, 1, None), **state}
            known = {column: row[column] for column in columns if column in row}
            connection.execute(sa.insert(inbox_jobs).values(known))
    yield database
    database.close()


def positions(database: Database) -> list[tuple[object, ...]]:
    """Return each job with its position in the order of commits. Analytics reads the jobs in this order."""
    column = "position" if database.kind is EngineKind.POSTGRES else "rowid"
    with database.snapshot() as connection:
        found = connection.exec_driver_sql(f"SELECT job_id, {column} FROM inbox_jobs ORDER BY 2, 1")  # noqa: S608
        return [tuple(row) for row in found]


def test_every_job_survives_the_migration(older: Database, ring: LocalKeyRing) -> None:
    before = positions(older)
    assert [done.name for done in migrations.migrate(older)][:1] == ["fair_share"]
    assert positions(older) == before
    url = older.engines.write.url.render_as_string(hide_password=False)
    with Store(url, ring, sweep_every_ms=0) as store:
        claimed = {job.job_id for job in store.inbox.claim("w1", 10)}
        assert claimed == {"waiting", "waiting too"}
        assert store.jobs.get("done").status == JobStatus.SUCCEEDED
        assert store.jobs.get("leased").worker_id == "w1"
        lanes = {row.lane for row in store.jobs.backlog()}
        assert lanes == {Lane.LEASED, Lane.DELAYED, Lane.BLOCKED}
