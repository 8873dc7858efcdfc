"""A history that was made elsewhere, as rows for the tables. Only their constraints check it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import sqlalchemy as sa

from euterpe.store.engine.bulk_insert import BulkInsert
from euterpe.store.engine.database import Database
from euterpe.store.tables import inbox_jobs, job_attempts, job_deliveries, job_outbox_events, requesters

Row = Mapping[str, Any]
# libSQL's server ends a transaction after five seconds; the others gain nothing from longer ones.
_JOBS_A_TRANSACTION = 500


class Life(NamedTuple):
    """A job with all that happened to it; each row has every column of its table."""

    job: Row
    attempts: Sequence[Row]
    events: Sequence[Row]
    deliveries: Sequence[Row]


class Written(NamedTuple):
    jobs: int  # of this transaction
    added: int  # 0 where they had been there before


class HistoryLoad:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._jobs, self._attempts, self._events, self._deliveries = (
            BulkInsert(database.engines, table, table.columns.keys())
            for table in (inbox_jobs, job_attempts, job_outbox_events, job_deliveries)
        )

    def name(self, named: Iterable[tuple[str, str]], created_at: int) -> None:
        """Requesters by id and name, without keys; those that are there, or whose name is taken, stay."""
        rows = [{"requester_id": key, "name": name, "created_at": created_at} for key, name in named]
        with self._database.transaction() as connection:
            connection.execute(self._database.insert(requesters).on_conflict_do_nothing(), rows)

    def stranger(self, known: Iterable[str]) -> str | None:
        """A requester that has jobs and is none of these."""
        owner = inbox_jobs.c.requester_id
        with self._database.snapshot() as connection:
            return connection.execute(sa.select(owner).where(owner.not_in([*known])).limit(1)).scalar()

    def write(self, lives: Iterable[Life]) -> Iterator[Written]:
        """Some hundred jobs in a transaction, the same ones together whenever the same lives come: so a load
        that was killed goes on where it ended."""
        left = iter(lives)
        while some := list(islice(left, _JOBS_A_TRANSACTION)):
            with self._database.transaction() as connection:
                # One of them is there only if all are.
                is_there = self._is_there(connection, some[0].job["job_id"])
                if not is_there:
                    self._add(connection, some)
            yield Written(len(some), 0 if is_there else len(some))

    def _is_there(self, connection: sa.Connection, job_id: str) -> bool:
        known = sa.select(inbox_jobs.c.job_id).where(inbox_jobs.c.job_id == job_id)
        return connection.execute(known).first() is not None

    def _add(self, connection: sa.Connection, lives: Sequence[Life]) -> None:
        self._jobs(connection, [life.job for life in lives])
        self._attempts(connection, [row for life in lives for row in life.attempts])
        self._events(connection, [row for life in lives for row in life.events])
        self._deliveries(connection, [row for life in lives for row in life.deliveries])
