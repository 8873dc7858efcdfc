"""The database access of the benchmarks: time by kind of SQL statement, and deletion of benchmark rows."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import sqlalchemy as sa

from euterpe.store.engine.bulk_insert import BulkInsert
from euterpe.store.engine.database import Database
from euterpe.store.tables import (
    api_keys,
    fair_shares,
    idempotency_keys,
    inbox_jobs,
    job_attempts,
    job_deliveries,
    job_groups,
    job_outbox_events,
    queues,
    requesters,
    webhook_origins,
    webhook_secrets,
)


def erase_jobs(database: Database, requester_id: str) -> None:
    """Delete a requester's jobs with their attempts, events, deliveries, keys, groups and queues."""
    own = sa.select(inbox_jobs.c.job_id).where(inbox_jobs.c.requester_id == requester_id)
    with database.transaction() as connection:
        # Lock the jobs first. Otherwise a worker could insert events of these jobs after the DELETE.
        connection.execute(own.order_by(inbox_jobs.c.job_id).with_for_update())
        for table in (job_attempts, job_outbox_events, job_deliveries):
            connection.execute(sa.delete(table).where(table.c.job_id.in_(own)))
        connection.execute(sa.delete(queues).where(_belongs_only_to(requester_id)))
        for table in (inbox_jobs, idempotency_keys, job_groups, fair_shares, webhook_origins):
            connection.execute(sa.delete(table).where(table.c.requester_id == requester_id))


def erase_requester(database: Database, requester_id: str) -> None:
    """Delete a requester with its jobs, API keys and webhook secrets."""
    erase_jobs(database, requester_id)
    with database.transaction() as connection:
        for table in (api_keys, webhook_secrets, webhook_origins, requesters):
            connection.execute(sa.delete(table).where(table.c.requester_id == requester_id))


def _belongs_only_to(requester_id: str) -> sa.ColumnElement[bool]:
    """Return an SQL condition that selects the queues used by this requester only.

    A selected queue is not paused, and all its rows in `fair_shares` belong to this requester.
    """
    share = fair_shares.c
    own = sa.select(share.queue).where(share.requester_id == requester_id)
    others = sa.select(share.queue).where(share.requester_id != requester_id)
    return sa.and_(queues.c.queue.in_(own), queues.c.queue.not_in(others), queues.c.paused_at.is_(None))


@contextmanager
def statement_times(database: Database) -> Iterator[Mapping[str, float]]:
    """Yield the seconds that this thread spends in the `with` block, by kind of SQL statement.

    At the end of the block, the time outside SQL statements is added as the entry `Python`.
    """
    engine, spent = database.engines.write, defaultdict[str, float](float)
    began = time.perf_counter()
    dialect: Any = engine.dialect
    inserts: Any = BulkInsert  # a bulk COPY is timed here: it fires no cursor events
    commit, copy_in, started = dialect.do_commit, inserts.copy_in, {get_ident(): 0.0}

    def before(*_: Any) -> None:
        if get_ident() in started:  # ignore other threads, such as the one that sends wake-ups
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
