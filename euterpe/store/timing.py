"""Where the time of a process goes: into which statements, into commits, and into Python."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from euterpe.store.bulk_insert import BulkInsert
from euterpe.store.database import Database


@contextmanager
def statement_times(database: Database) -> Iterator[Mapping[str, float]]:
    """Seconds by kind of statement, filled while the context is open; for one thread."""
    engine, spent = database.engines.write, defaultdict[str, float](float)
    began = time.perf_counter()
    dialect: Any = engine.dialect
    inserts: Any = BulkInsert  # whose COPY passes SQLAlchemy's events by
    commit, copy_in, started = dialect.do_commit, inserts.copy_in, [0.0]

    def before(*_: Any) -> None:
        started[0] = time.perf_counter()

    def after(_: Any, __: Any, statement: str, *___: Any) -> None:
        spent[_kind(statement)] += time.perf_counter() - started[0]

    def timed_commit(connection: Any) -> None:
        before()
        commit(connection)
        spent["COMMIT"] += time.perf_counter() - started[0]

    def timed_copy(insert: BulkInsert, *arguments: Any) -> None:
        before()
        copy_in(insert, *arguments)
        after(None, None, insert.copy)

    sa.event.listen(engine, "before_cursor_execute", before)
    sa.event.listen(engine, "after_cursor_execute", after)
    dialect.do_commit = timed_commit
    inserts.copy_in = timed_copy
    try:
        yield spent
    finally:
        spent["Python"] = time.perf_counter() - began - sum(spent.values())
        dialect.do_commit = commit
        inserts.copy_in = copy_in
        sa.event.remove(engine, "before_cursor_execute", before)
        sa.event.remove(engine, "after_cursor_execute", after)


def _kind(statement: str) -> str:
    words = statement.replace("(", " ").split()
    target = next((word for word in words if word.startswith(("inbox_", "job_"))), "")
    return f"{words[0]} {target.partition('.')[0]}".strip()
