"""/healthz and /readyz: liveness and readiness."""

import asyncio
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from euterpe.api import health
from euterpe.api.health import WriteProbe
from euterpe.api.service import ApiTimings
from euterpe.api.thread_pool import StoreThreadPool
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.store.engine.engines import sqlite_file
from euterpe.store.errors import StoreUnavailable
from euterpe.store.store import Store
from euterpe.store.tables import schema_migrations
from tests import engines
from tests.api.serving import Served, assert_problem, serving
from tests.store import outages


def test_a_running_service_is_alive_and_ready_and_asks_for_no_key(on_every_engine: Served) -> None:
    assert on_every_engine.anonymous.get("/healthz").json() == {"status": "ok"}
    assert on_every_engine.anonymous.get("/readyz").json() == {"status": "ready"}


def test_a_database_of_another_version_is_not_ready(served: Served) -> None:
    with served.store.database.transaction() as connection:
        connection.execute(sa.delete(schema_migrations))
    assert_problem(served.anonymous.get("/readyz"), 503, "schema_mismatch")
    assert served.anonymous.get("/healthz").status_code == 200


def test_an_unreachable_database_is_not_ready_and_its_address_is_not_shown(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(_: object) -> None:
        raise StoreUnavailable("connection to db.internal refused")

    monkeypatch.setattr(health, "require_current", unreachable)
    answer = served.anonymous.get("/readyz")
    assert_problem(answer, 503, "database_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert "db.internal" not in answer.text


def test_a_database_that_does_not_answer_is_not_ready(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    monkeypatch.setattr(health, "require_current", lambda _: answered.wait())
    with serving(sqlite_store, timings=ApiTimings(readiness_s=0.02)) as served:
        assert_problem(served.anonymous.get("/readyz"), 503, "database_unavailable")
        answered.set()


def test_a_database_that_takes_no_writes_is_not_ready(
    servers: Callable[[str], engines.Engine], ring: LocalKeyRing
) -> None:
    """The transactions of these connections are read-only, as on a standby server after a failover."""
    with servers("postgres").fresh() as url:
        with Store(url, ring) as opened, serving(opened) as served:
            assert served.anonymous.get("/readyz").status_code == 200
        read_only = sa.make_url(url).update_query_dict({"options": "-c default_transaction_read_only=on"})
        with (
            Store(read_only.render_as_string(hide_password=False), ring) as opened,
            serving(opened) as served,
        ):
            assert_problem(served.anonymous.get("/readyz"), 503, "database_unavailable")
            assert served.anonymous.get("/healthz").status_code == 200


def test_a_server_that_stands_by_for_another_is_not_ready(tmp_path: Path, ring: LocalKeyRing) -> None:
    postgres = outages.FragilePostgres(tmp_path)
    try:
        with Store(postgres.url, ring) as opened:
            with postgres.as_standby(), serving(opened) as served:
                assert_problem(served.anonymous.get("/readyz"), 503, "database_unavailable")
            with serving(opened) as served:
                assert served.anonymous.get("/readyz").status_code == 200
    finally:
        postgres.stop()


@pytest.fixture
def full_disk() -> Iterator[Callable[[Path], None]]:
    """Return a function that limits all files of this process to the present size of a given file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda path: resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_not_ready_and_is_ready_when_there_is_room_again(
    served: Served, full_disk: Callable[[Path], None]
) -> None:
    requester = served.requester()
    requester.submit()
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    database = sqlite_file(str(served.store.database.engines.write.url))
    assert database is not None
    full_disk(database.with_name(f"{database.name}-wal"))
    assert_problem(served.anonymous.get("/readyz"), 503, "database_unavailable")
    assert_problem(requester.post(), 503, "database_unavailable")
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert requester.post().status_code == 202


def test_a_database_on_a_read_only_file_system_is_not_ready(served: Served) -> None:
    """`PRAGMA query_only` makes SQLite refuse writes as it does on a read-only file system."""
    with served.store.database.engines.write.begin() as connection:
        connection.exec_driver_sql("PRAGMA query_only = 1")
    assert_problem(served.anonymous.get("/readyz"), 503, "database_unavailable")


def test_whoever_asks_writes_at_most_once_in_a_while() -> None:
    now, written, errors = 0.0, list[float](), list[Exception]()

    def write() -> None:
        written.append(now)
        if errors:
            raise errors[0]

    async def probe_repeatedly() -> None:
        nonlocal now
        probe = WriteProbe(write, pool, every_s=5.0, clock=lambda: now)
        await asyncio.gather(*(probe.check() for _ in range(100)))
        assert written == [0.0]
        now = 4.9
        await probe.check()
        assert written == [0.0]
        errors.append(StoreUnavailable("the disk is full"))
        now = 5.0
        for _ in range(100):
            with pytest.raises(StoreUnavailable, match="full"):
                await probe.check()
        assert written == [0.0, 5.0]
        errors.clear()
        now = 10.0
        await probe.check()
        assert written == [0.0, 5.0, 10.0]

    pool = StoreThreadPool()
    try:
        asyncio.run(probe_repeatedly())
    finally:
        pool.stop()
