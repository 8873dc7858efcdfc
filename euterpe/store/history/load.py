"""Bulk-load a history that was made elsewhere. Only the constraints of the tables check the rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import sqlalchemy as sa

from euterpe.store.engine.bulk_insert import BulkInsert
from euterpe.store.engine.database import Database
from euterpe.store.tables import inbox_jobs, job_attempts, job_deliveries, job_outbox_events, requesters

Row = Mapping[str, Any]
# Transactions are short, because libSQL's server ends a transaction after five seconds. On other engines,
# longer transactions would not be faster.
_JOBS_PER_TRANSACTION = 500


class JobHistory(NamedTuple):
    """A job with all its attempts, events and deliveries; each row has every column of its table."""

    job: Row
    attempts: Sequence[Row]
    events: Sequence[Row]
    deliveries: Sequence[Row]


class Written(NamedTuple):
    jobs: int  # the number of jobs in this transaction
    added: int  # the number of inserted jobs; 0 if the database has these jobs already


class HistoryLoad:
    """A bulk loader of requesters and their jobs. A load that was killed can be resumed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._jobs, self._attempts, self._events, self._deliveries = (
            BulkInsert(database.engines, table, table.columns.keys())
            for table in (inbox_jobs, job_attempts, job_outbox_events, job_deliveries)
        )

    def name(self, named: Iterable[tuple[str, str]], created_at: int) -> None:
        """Insert requesters by id and name, without API keys; skip those whose id or name exists already."""
        rows = [{"requester_id": key, "name": name, "created_at": created_at} for key, name in named]
        with self._database.transaction() as connection:
            connection.execute(self._database.insert(requesters).on_conflict_do_nothing(), rows)

    def requester_outside(self, known: Iterable[str]) -> str | None:
        """Return the id of a requester that has jobs and is not in `known`, or None if there is none."""
        owner = inbox_jobs.c.requester_id
        with self._database.snapshot() as connection:
            return connection.execute(sa.select(owner).where(owner.not_in([*known])).limit(1)).scalar()

    def write(self, lives: Iterable[JobHistory]) -> Iterator[Written]:
        """Write up to 500 jobs per transaction, and yield the counts of each transaction.

        The same input is always divided in the same way. So a load that was killed can run again: it skips
        the transactions that were committed.
        """
        left = iter(lives)
        while some := list(islice(left, _JOBS_PER_TRANSACTION)):
            with self._database.transaction() as connection:
                # If the first job exists, all these jobs exist, because they were committed together.
                exists = self._exists(connection, some[0].job["job_id"])
                if not exists:
                    self._add(connection, some)
            yield Written(len(some), 0 if exists else len(some))

    def _exists(self, connection: sa.Connection, job_id: str) -> bool:
        known = sa.select(inbox_jobs.c.job_id).where(inbox_jobs.c.job_id == job_id)
        return connection.execute(known).first() is not None

    def _add(self, connection: sa.Connection, lives: Sequence[JobHistory]) -> None:
        self._jobs(connection, [life.job for life in lives])
        self._attempts(connection, [row for life in lives for row in life.attempts])
        self._events(connection, [row for life in lives for row in life.events])
        self._deliveries(connection, [row for life in lives for row in life.deliveries])
