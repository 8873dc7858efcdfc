"""Profile a thread's wall-clock time by kind of SQL statement, commit and Python."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import sqlalchemy as sa

from euterpe.store.engine.bulk_insert import BulkInsert
from euterpe.store.engine.database import Database


@contextmanager
def statement_times(database: Database) -> Iterator[Mapping[str, float]]:
    """Yield the seconds by kind of statement, for this thread only; they accumulate inside the `with` block.

    At the end, the rest of the time is added as the entry `Python`.
    """
    engine, spent = database.engines.write, defaultdict[str, float](float)
    began = time.perf_counter()
    dialect: Any = engine.dialect
    inserts: Any = BulkInsert  # a bulk COPY does not fire SQLAlchemy's cursor events
    commit, copy_in, started = dialect.do_commit, inserts.copy_in, {get_ident(): 0.0}

    def before(*_: Any) -> None:
        if get_ident() in started:  # skip the announcer's thread
            started[get_ident()] = time.perf_counter()

    def after(_: Any, __: Any, statement: str, *___: Any) -> None:
        if get_ident() in started:
            spent[_kind(statement)] += time.perf_counter() - started[get_ident()]

    def timed_commit(connection: Any) -> None:
        before()
        commit(connection)
        after(None, None, "COMMIT")

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
