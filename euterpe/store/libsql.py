"""libSQL for SQLAlchemy: SQLite's dialect over `libsql-client`'s DBAPI and a web socket."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from sqlalchemy import URL
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite


class LibsqlDialect(SQLiteDialect_pysqlite):
    driver = "libsql"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        return import_module("libsql_client.dbapi2")  # an extra that the other engines do without

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        # The HTTP form of the address has no transactions: always the web socket.
        scheme = "wss" if url.query.get("tls") == "1" else "ws"
        token = f"?authToken={url.password}" if url.password else ""
        return [f"{scheme}://{url.host}:{url.port or 8080}{token}"], {"isolation_level": None, "uri": True}

    def on_connect(self) -> Callable[[Any], None]:
        return lambda _: None  # pysqlite registers a Python REGEXP here; a server cannot call back

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return "HRANA_WEBSOCKET_ERROR" in str(e) or super().is_disconnect(e, connection, cursor)


registry.register("libsql", __name__, "LibsqlDialect")
