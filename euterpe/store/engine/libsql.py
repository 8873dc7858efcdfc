"""libSQL for SQLAlchemy: SQLite's dialect over `libsql-client`'s DBAPI and a web socket."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from sqlalchemy import URL
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import DBAPIConnection

# How the driver's errors begin when its connection is of no more use. A transaction that the server ended
# after its five seconds is one of them: the driver would fail to roll back what is rolled back already.
_GONE = ("HRANA_", "STREAM_", "CLIENT_CLOSED", "TRANSACTION_TIMEOUT", "SQLITE_CANTOPEN")
# The server has its writers queue for a while; the driver's own five seconds are too few for eight of them.
_ANSWER_TIMEOUT_S = 60.0


async def _connect(_: Any, session: Any, url: str) -> Any:
    """As the driver does, but for its limit of 4 MiB on an answer: a page of jobs with large specs is more,
    and a queue that begins with one could never be claimed from."""
    return await session.ws_connect(url, protocols=["hrana2"], autoclose=False, autoping=True, max_msg_size=0)


class LibsqlDialect(SQLiteDialect_pysqlite):
    driver = "libsql"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        dbapi = import_module("libsql_client.dbapi2")  # an extra that the other engines do without
        import_module("libsql_client.hrana.conn").HranaConn._do_connect = _connect
        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        # The HTTP form of the address has no transactions: always the web socket.
        scheme = "wss" if url.query.get("tls") == "1" else "ws"
        token = f"?authToken={url.password}" if url.password else ""
        address = f"{scheme}://{url.host}:{url.port or 8080}{token}"
        options = {"isolation_level": None, "uri": True, "timeout": _ANSWER_TIMEOUT_S}
        # The pool hands a connection to one thread at a time, but not always to the one that opened it.
        return [address], {**options, "check_same_thread": False}

    def connect(self, *arguments: Any, **options: Any) -> DBAPIConnection:
        error_of_its_own = import_module("libsql_client").LibsqlError
        try:
            return super().connect(*arguments, **options)
        except error_of_its_own as error:  # nowhere else does the driver let it out
            raise self.loaded_dbapi.OperationalError(str(error)) from error

    def on_connect(self) -> Callable[[Any], None]:
        return lambda _: None  # pysqlite registers a Python REGEXP here; a server cannot call back

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        lost = str(getattr(e, "sqlite_errorname", "")).startswith(_GONE)
        return lost or super().is_disconnect(e, connection, cursor)


registry.register("libsql", __name__, "LibsqlDialect")
