"""SQLAlchemy dialect for libSQL: SQLite's dialect with the DBAPI of `libsql-client`, over a web socket."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from sqlalchemy import URL
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import DBAPIConnection

# Prefixes of the driver's error names: after such an error the connection is unusable. TRANSACTION_TIMEOUT
# means that the server has ended the transaction (after five seconds), so the driver's rollback would fail.
_CONNECTION_LOST = ("HRANA_", "STREAM_", "CLIENT_CLOSED", "TRANSACTION_TIMEOUT", "SQLITE_CANTOPEN")
# The server lets writers wait in a queue. With eight writers, a writer can wait for longer than the driver's
# default timeout of 5 s.
_ANSWER_TIMEOUT_S = 60.0


async def _connect(_: Any, session: Any, url: str) -> Any:
    """Open the web socket as the driver does, but without its limit of 4 MiB on a response.

    A page of jobs with large specs exceeds this limit. With the limit, claims from a queue that begins with
    such jobs would always fail.
    """
    return await session.ws_connect(url, protocols=["hrana2"], autoclose=False, autoping=True, max_msg_size=0)


class LibsqlDialect(SQLiteDialect_pysqlite):
    driver = "libsql"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        dbapi = import_module("libsql_client.dbapi2")  # an optional extra that only this engine needs
        import_module("libsql_client.hrana.conn").HranaConn._do_connect = _connect
        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, object]]:
        # libSQL has no transactions over HTTP, so the address is always that of the web socket.
        scheme = "wss" if url.query.get("tls") == "1" else "ws"
        token = f"?authToken={url.password}" if url.password else ""
        address = f"{scheme}://{url.host}:{url.port or 8080}{token}"
        options = {"isolation_level": None, "uri": True, "timeout": _ANSWER_TIMEOUT_S}
        # Only one thread at a time uses a connection of the pool, but not always the thread that opened it.
        return [address], {**options, "check_same_thread": False}

    def connect(self, *arguments: Any, **options: object) -> DBAPIConnection:
        libsql_error = import_module("libsql_client").LibsqlError
        try:
            return super().connect(*arguments, **options)
        except libsql_error as error:  # the driver wraps this error everywhere except here
            raise self.loaded_dbapi.OperationalError(str(error)) from error

    def on_connect(self) -> Callable[[Any], None]:
        return lambda _: None  # pysqlite registers a Python REGEXP here, which a server cannot call

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        lost = str(getattr(e, "sqlite_errorname", "")).startswith(_CONNECTION_LOST)
        return lost or super().is_disconnect(e, connection, cursor)


registry.register("libsql", __name__, "LibsqlDialect")
