"""Read the history incrementally in commit order: no row is missed, and no row is read twice.

A *cut* has, for each growing table, the position up to which the table has been read. After a cut was taken,
no row is added before this cut. Each committed row is before every cut that is taken long enough after the
commit of the row. On Postgres the position of a row is the id of the transaction that inserted the row, and a
cut is the id of the oldest running transaction. On the SQLite family, which has one writer, the position of a
row is its rowid.

Jobs are read through their events: a job is read with the event that led to its current state. A read up to a
cut does not return a job that changed after this cut. A read up to a later cut returns the job, with its
latest event.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import sqlalchemy as sa

from euterpe.store.engine.batch_rows import AnySelect
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import EngineKind
from euterpe.store.errors import SchemaMismatch
from euterpe.store.history.columns import COLUMNS
from euterpe.store.tables import (
    COMMIT_ORDERED_TABLES,
    inbox_jobs,
    job_attempts,
    job_deliveries,
    job_outbox_events,
    requesters,
    schema_migrations,
)

_GROWING = dict(zip(("jobs", "events", "deliveries"), COMMIT_ORDERED_TABLES, strict=True))
# On Postgres, the bounds of the ranges are computed from a sample of about this many pages of the table.
_SAMPLED_PAGES = 2_000
# libSQL's server limits a response to 10 MiB.
_ROWS_PER_RESPONSE = 500
# This query identifies the cluster, its failover timeline and the database. The query also reads the OIDs of
# the tables, which change when a dump is restored, even into the same database.
_IDENTITY = (
    "SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()), "
    "(SELECT timeline_id FROM pg_control_checkpoint()), "
    "(SELECT oid FROM pg_database WHERE datname = current_database()), "
    "'inbox_jobs'::regclass::oid, 'job_outbox_events'::regclass::oid, 'job_deliveries'::regclass::oid)"
)


class Cut(NamedTuple):
    """The position in each growing table at which the next read begins."""

    jobs: int = 0
    events: int = 0
    deliveries: int = 0


@dataclass(frozen=True)
class Bookmark:
    """A cut up to which the history was read, and marks that show whether the cut is still valid."""

    cut: Cut
    marks: Mapping[str, object]

    def document(self) -> dict[str, object]:
        return {"cut": self.cut._asdict(), "marks": dict(self.marks)}

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        return cls(Cut(**document["cut"]), document["marks"])


@dataclass(frozen=True)
class PositionRange:
    """The rows of a growing table from (low, low_key), included, to (high, high_key), excluded.

    The keys divide rows that have the same position. A migration or a restore gives the same position to all
    rows, because it runs in a single transaction.
    """

    grows: str
    low: int
    high: int
    low_key: str = ""
    high_key: str = ""

    @property
    def is_of_one_position(self) -> bool:
        return self.low == self.high or (self.low == self.high - 1 and not self.high_key)


class HistoryFeed:
    """A reader of the history, which takes cuts and reads the rows between two cuts in ranges."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._postgres = database.kind is EngineKind.POSTGRES

    @property
    def kind(self) -> EngineKind:
        return self._database.kind

    def now(self) -> Bookmark:
        """Return a bookmark at the current cut. No row can be added before this cut any more."""
        with self._database.snapshot() as connection:
            cut = self._cut(connection)
            return Bookmark(cut, self._marks(connection, cut))

    def knows(self, bookmark: Bookmark) -> bool:
        """Return False if the bookmark's positions may be invalid.

        The positions may be invalid after a restore, after a failover to a standby that may lack some rows,
        or if the last row that was read has been deleted and its rowid has been reused.
        """
        with self._database.snapshot() as connection:
            reached = self._cut(connection)
            return self._marks(connection, bookmark.cut) == bookmark.marks and all(
                before <= after for before, after in zip(bookmark.cut, reached, strict=True)
            )

    def _cut(self, connection: sa.Connection) -> Cut:
        if not self._postgres:
            return Cut(*(self._last(connection, table) + 1 for table in COMMIT_ORDERED_TABLES))
        for table in COMMIT_ORDERED_TABLES:
            later = sa.exists().where(self._position(table) >= _snapshot("xmax")).select_from(table)
            if connection.execute(sa.select(later)).scalar_one():
                raise SchemaMismatch(
                    f"{table.name} has rows from another database cluster, as a restore leaves them; "
                    "run `euterpe migrate`, which corrects their positions"
                )
        return Cut(
            *[connection.execute(sa.select(_snapshot("xmin"))).scalar_one()] * len(COMMIT_ORDERED_TABLES)
        )

    def _marks(self, connection: sa.Connection, cut: Cut) -> Mapping[str, object]:
        if self._postgres:
            return {"database": connection.execute(sa.text(_IDENTITY)).scalar_one()}
        return {
            name: self._key_at(connection, _GROWING[name], position - 1)
            for name, position in cut._asdict().items()
        }

    def ranges(self, table: str, since: Cut, until: Cut, rows_each: int) -> list[PositionRange]:
        """Return the ranges that cover `table` between two cuts, each with about `rows_each` rows."""
        grows = "deliveries" if table == "deliveries" else "events"
        found = self._parts(grows, since, until, rows_each)
        # Jobs that have no event yet are read by their own position.
        return [*found, *self._parts("jobs", since, until, rows_each)] if table == "jobs" else found

    def select(
        self, table: str, part: PositionRange, names: Sequence[str], *where: sa.ColumnElement[bool]
    ) -> AnySelect:
        """Return a SELECT of the named columns, for those rows of the range that meet the conditions."""
        columns = COLUMNS[table]
        wanted = sa.select(*(columns[name].label(name) for name in names))
        return wanted.select_from(_source(table, part)).where(*self._within(table, part), *where)

    def answers(self, part: PositionRange) -> Iterator[PositionRange]:
        """Yield the range. On libSQL, yield parts of the range, so that each part fits into one response."""
        if self.kind is not EngineKind.LIBSQL:
            yield part
            return
        for low in range(part.low, part.high, _ROWS_PER_RESPONSE):
            yield replace(part, low=low, high=min(low + _ROWS_PER_RESPONSE, part.high))

    def rows(self, select: AnySelect, rows_each: int) -> Iterator[Sequence[Sequence[Any]]]:
        """Yield batches of plain rows, as the driver returns them."""
        with self._database.snapshot() as connection:
            if self.kind is EngineKind.LIBSQL:
                # Fetch all rows: libSQL's driver loses a row at each fetchmany, and the ranges are small.
                if rows := connection.execute(select).all():
                    yield rows
                return
            result = connection.execution_options(yield_per=rows_each).execute(select)
            yield from result.partitions(rows_each)

    def csv(self, select: AnySelect) -> Iterator[bytes]:
        """Yield the rows as CSV (only on Postgres), in a fifth of the time that Python objects would take."""
        with self._database.snapshot() as connection:
            # Override the session's planner settings (`engines.py`), because they are for statements that
            # find few rows by key, and this statement reads many rows.
            for name in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin"):
                connection.exec_driver_sql(f"SET LOCAL {name} = on")
            text = select.compile(connection, compile_kwargs={"literal_binds": True})
            driver: Any = connection.connection.driver_connection
            # Pass empty parameters, so that the driver turns `%%` back into `%`.
            with driver.cursor().copy(f"COPY ({text}) TO STDOUT (FORMAT csv)", ()) as copy:
                yield from copy

    def clock_ms(self) -> int:
        """Return the current time of the database's clock, from which the times in the rows come."""
        with self._database.snapshot() as connection:
            return self._database.read_clock(connection)

    def installation(self) -> str:
        """Return an id of the installation: the time of the first migration.

        The id stays the same after a restore or a failover.
        """
        first = sa.select(sa.func.min(schema_migrations.c.applied_at))
        with self._database.snapshot() as connection:
            return str(connection.execute(first).scalar_one())

    def requesters(self) -> dict[str, str]:
        """Return the names of all requesters by id."""
        with self._database.snapshot() as connection:
            found = connection.execute(sa.select(requesters.c.requester_id, requesters.c.name)).all()
        return {row.requester_id: row.name for row in found}

    # -- positions

    def _position(self, table: sa.Table) -> sa.ColumnElement[int]:
        name = "position" if self._postgres else "rowid"
        return sa.literal_column(f"{table.name}.{name}", sa.BigInteger)

    def _last(self, connection: sa.Connection, table: sa.Table) -> int:
        last = sa.select(sa.func.max(self._position(table))).select_from(table)
        return connection.execute(last).scalar_one() or 0

    def _key_at(self, connection: sa.Connection, table: sa.Table, position: int) -> str | None:
        (key,) = table.primary_key.columns
        return connection.execute(sa.select(key).where(self._position(table) == position)).scalar()

    def _within(self, table: str, part: PositionRange) -> Iterator[sa.ColumnElement[bool]]:
        grown = _GROWING[part.grows]
        position, (key,) = self._position(grown), grown.primary_key.columns
        if part.is_of_one_position:
            # Many rows can have the same position: the migration that added the column `position` gave one
            # value to all existing rows. With `==` instead of the range below, the planner can find the rows
            # by the index on the key.
            yield position == part.low
            yield key >= part.low_key
            if part.high_key:
                yield key < part.high_key
        else:
            yield position >= part.low
            yield sa.or_(position > part.low, key >= part.low_key)
            yield position <= part.high
            yield sa.or_(position < part.high, key < part.high_key)
        if table == "jobs" and part.grows == "jobs":
            yield inbox_jobs.c.event_sequence == 0

    def _parts(self, grows: str, since: Cut, until: Cut, rows_each: int) -> list[PositionRange]:
        low, high = getattr(since, grows), getattr(until, grows)
        if low >= high:
            return []
        if self._postgres:
            return self._even_parts(grows, low, high, rows_each)
        # Begin at the first row: rowids are dense, but after pruning the first rowid may be large.
        low = max(low, self._first(grows))
        return [PositionRange(grows, at, min(at + rows_each, high)) for at in range(low, high, rows_each)]

    def _first(self, grows: str) -> int:
        table = _GROWING[grows]
        first = sa.select(sa.func.min(self._position(table))).select_from(table)
        with self._database.snapshot() as connection:
            return connection.execute(first).scalar_one() or 0

    def _even_parts(self, grows: str, low: int, high: int, rows_each: int) -> list[PositionRange]:
        table = _GROWING[grows]
        position, (key,) = self._position(table), table.primary_key.columns
        with self._database.snapshot() as connection:
            size = sa.text(f"SELECT pg_relation_size('{table.name}') / 8192")
            percent = min(100.0, 100.0 * _SAMPLED_PAGES / max(connection.execute(size).scalar_one(), 1))
            sample = sa.tablesample(table, sa.func.system(percent), name=table.name, seed=sa.literal(1))
            seen = connection.execute(
                sa.select(position, sample.c[key.name])
                .where(position >= low, position < high)
                .order_by(position, sample.c[key.name])
            ).all()
        step = max(1, round(rows_each * percent / 100))
        inner = [tuple(seen[at]) for at in range(step, len(seen) - step // 2, step)]
        crowded = {a for (a, _), (b, _) in pairwise(inner) if a == b}
        bounds = sorted({(low, ""), *inner, *((at + n, "") for at in crowded for n in (0, 1)), (high, "")})
        return [PositionRange(grows, a, b, a_key, b_key) for (a, a_key), (b, b_key) in pairwise(bounds)]


def _snapshot(end: str) -> sa.ColumnElement[int]:
    return sa.literal_column(f"pg_snapshot_{end}(pg_current_snapshot())::text::bigint", sa.BigInteger)


def _source(table: str, part: PositionRange) -> sa.FromClause:
    if table == "deliveries":
        return job_deliveries
    if table == "events":
        return job_outbox_events
    if part.grows == "jobs":
        return inbox_jobs
    # Join each job only with its latest event, which led to the current state of the job.
    changed = job_outbox_events.join(
        inbox_jobs,
        sa.and_(
            inbox_jobs.c.job_id == job_outbox_events.c.job_id,
            inbox_jobs.c.event_sequence == job_outbox_events.c.sequence,
        ),
    )
    if table == "jobs":
        return changed
    return changed.join(job_attempts, job_attempts.c.job_id == inbox_jobs.c.job_id)
