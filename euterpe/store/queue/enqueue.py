"""Enqueue jobs in one transaction.

If the idempotency key of a job is in use, return the stored answer, or refuse the job if its request differs
(contract §9).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from euterpe.crypto.envelope import Sealed
from euterpe.domain.rows import Json
from euterpe.domain.states import JobStatus, lane_when_new
from euterpe.domain.status import status_of_columns
from euterpe.domain.text import check_text
from euterpe.store.checks import check_count, check_name
from euterpe.store.engine.batch_rows import TEXT, AnyRow, Rows, as_parameter
from euterpe.store.engine.bulk_insert import BulkInsert, Row
from euterpe.store.engine.database import Database
from euterpe.store.engine.ids import new_id
from euterpe.store.engine.wakeup import Topic
from euterpe.store.errors import DuplicateSource, IdempotencyConflict
from euterpe.store.queue.fairness.admission import Admission
from euterpe.store.queue.fairness.groups import Group
from euterpe.store.tables import idempotency_keys, inbox_jobs, pruned_jobs

# A new job can have values in these nullable columns and in the sealed columns. All other nullable columns
# are NULL until a later write.
_OPTIONAL = ("external_id", "group_id", "source_ref", "rank")
_SEALED = ("storage_creds_", "callbacks_", "hls_key_")
_LATER = {
    column.name: None
    for column in inbox_jobs.columns
    if column.nullable and column.name not in _OPTIONAL and not column.name.startswith(_SEALED)
}
_PRUNED_SOURCES = sa.select(pruned_jobs.c.source_ref).where(
    pruned_jobs.c.source_ref.in_(sa.select(Rows({"source_ref": TEXT})["source_ref"]))
)
_WRITTEN = [column.name for column in inbox_jobs.columns if column.name not in _LATER]


@dataclass(frozen=True)
class Key:
    """An idempotency key and the hash of the request that was sent with it."""

    text: str
    request_hash: str


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """A validated job that is not yet inserted; its secrets are sealed already."""

    requester_id: str
    spec: Json
    max_attempts: int
    queue: str = "default"
    priority: int = 50
    group_id: str | None = None
    group_limit: int = 1
    not_before: int | None = None
    external_id: str | None = None
    source_ref: str | None = None
    sealed: Sealed | None = None
    sealed_callbacks: Sealed | None = None
    sealed_hls_keys: Sealed | None = None
    key: Key | None = None
    job_id: str = field(default_factory=new_id)

    def __post_init__(self) -> None:
        check_name(self.requester_id, "requester_id")
        check_text("queue", self.queue, "queue")
        check_count(self.priority, "priority", 0, 100)
        check_count(self.max_attempts, "max_attempts", 1, 100)
        check_count(self.group_limit, "group_limit", 1, 1_000)
        if self.group_id is not None:
            check_text("group", self.group_id, "group_id")
        if self.not_before is not None:
            check_count(self.not_before, "not_before", 0, 2**53)
        for name in ("external_id", "source_ref"):
            if getattr(self, name) is not None:
                check_name(getattr(self, name), name)

    @property
    def group(self) -> Group | None:
        return None if self.group_id is None else Group(self.queue, self.requester_id, self.group_id)


@dataclass(frozen=True)
class Accepted:
    """An accepted job and its status document.

    `replayed` is true if an earlier request with the same idempotency key created the job.
    """

    job_id: str
    response: Mapping[str, object]
    replayed: bool = False


Answer = Accepted | IdempotencyConflict | DuplicateSource


class Enqueue:
    def __init__(self, database: Database, admission: Admission, *, idempotency_ttl_ms: int) -> None:
        self._database, self._admission, self._ttl_ms = database, admission, idempotency_ttl_ms
        self._insert_jobs = BulkInsert(database.engines, inbox_jobs, _WRITTEN)
        self._take_keys = self._take_keys_statement()
        self._stored_keys = _stored_keys_statement()

    def many(self, jobs: Sequence[NewJob]) -> list[Answer]:
        """Insert jobs in one transaction; return an answer for each job, in order.

        Raise `DuplicateSource` if a `source_ref` has a job already. In that case no job is inserted.
        """
        with self._database.transaction() as connection:
            now, answers = self._answer_known(connection, jobs)
            fresh = [job for job in jobs if job.job_id not in answers]
            rows = self._insert(connection, fresh, now)
        for row in rows:
            answers[row["job_id"]] = Accepted(row["job_id"], status_of_columns(row))
        return [answers[job.job_id] for job in jobs]

    def stored_answer(
        self, requester_id: str, key: str, request_hash: str
    ) -> Accepted | IdempotencyConflict | None:
        """Return the answer that `many` would give for this key and request, or None if the key is free."""
        check_text("idempotency_key", key, "idempotency_key")
        taken = sa.select(idempotency_keys).where(
            idempotency_keys.c.requester_id == requester_id,
            idempotency_keys.c.idempotency_key == key,
            idempotency_keys.c.expires_at > self._database.now,
        )
        with self._database.snapshot() as connection:
            stored = connection.execute(taken).one_or_none()
        return None if stored is None else _answer(request_hash, stored)

    def _insert(self, connection: sa.Connection, jobs: Sequence[NewJob], now: int | None) -> Sequence[Row]:
        """Insert each job into its first lane; return the rows."""
        if not jobs:
            return ()
        limits: dict[Group, int] = {}
        for job in jobs:
            if job.group is not None:
                limits.setdefault(job.group, job.group_limit)
        # `register` locks the groups, and `_placed` locks the shares to get the ranks. The lock order
        # (admission.py) requires that the groups are locked before the shares.
        self._admission.groups.register(connection, limits)
        rows = self._placed(connection, jobs, now)
        try:
            # Sort the rows: otherwise two batches with the same refs could deadlock on the unique index.
            self._insert_jobs(connection, sorted(rows, key=lambda row: row["source_ref"] or ""))
        except sa.exc.IntegrityError as error:
            if "source_ref" in str(error.orig):
                raise DuplicateSource([job.source_ref for job in jobs if job.source_ref]) from None
            raise
        self._refuse_pruned_sources(connection, jobs)
        self._admission.admit(connection, limits, locked=True)
        self._database.announce(connection, Topic.INBOX)
        return rows

    def _refuse_pruned_sources(self, connection: sa.Connection, jobs: Sequence[NewJob]) -> None:
        """Raise `DuplicateSource` if the job of a `source_ref` was pruned.

        The caller has inserted the rows. The insert has waited for a concurrent prune of the same refs, so
        this query sees the rows that the prune has committed.
        """
        refs = [job.source_ref for job in jobs if job.source_ref is not None]
        if refs:
            rows = connection.execute(_PRUNED_SOURCES, as_parameter({"source_ref": ref} for ref in refs))
            if pruned := list(rows.scalars()):
                raise DuplicateSource(pruned)

    def _placed(self, connection: sa.Connection, jobs: Sequence[NewJob], now: int | None) -> Sequence[Row]:
        """Return the row of each job, with its lane and its rank."""
        if now is None and any(job.not_before is not None for job in jobs):
            now = self._database.read_clock(connection)
        due = [job for job in jobs if job.not_before is None or job.not_before <= (now or 0)]
        alone = [job for job in due if job.group_id is None]
        grouped = {(job.queue, job.requester_id) for job in due if job.group_id is not None}
        ranks = self._admission.shares.ranks(connection, alone, also_locked=grouped)
        now = now or ranks.now or self._database.read_clock(connection)
        return [new_row(job, now, ranks.by_job.get(job.job_id)) for job in jobs]

    def _answer_known(
        self, connection: sa.Connection, jobs: Sequence[NewJob]
    ) -> tuple[int | None, dict[str, Answer]]:
        """Store the idempotency keys that are free; return the stored answers of jobs whose key is in use.

        Also return the time of the database's clock, or None if no job has a key.
        """
        keyed = [job for job in jobs if job.key is not None]
        if not keyed:
            return None, {}
        now = self._database.read_clock(connection)
        first = {_key_of(job): job for job in reversed(keyed)}
        # Sort the keys: otherwise two batches with the same keys could deadlock.
        wanted = [self._key_row(first[key], now) for key in sorted(first)]
        connection.execute(self._take_keys, {**as_parameter(wanted), "now": now})
        stored = {
            (row.requester_id, row.idempotency_key): row
            for row in connection.execute(self._stored_keys, as_parameter(wanted))
        }
        return now, {
            job.job_id: _answer(job.key.request_hash, stored[_key_of(job)])
            for job in keyed
            if job.key is not None and stored[_key_of(job)].job_id != job.job_id
        }

    def _key_row(self, job: NewJob, now: int) -> dict[str, object]:
        requester_id, key = _key_of(job)
        return {
            "requester_id": requester_id,
            "idempotency_key": key,
            "request_hash": job.key.request_hash if job.key else "",
            "job_id": job.job_id,
            "response": status_of_columns(new_row(job, now, None)),
            "created_at": now,
            "expires_at": now + self._ttl_ms,
        }

    def _take_keys_statement(self) -> sa.Executable:
        key = idempotency_keys.c
        rows = Rows({column.name: column.type for column in key})
        # SQLite's parser needs a WHERE between SELECT and ON CONFLICT.
        wanted = sa.select(*(rows[column.name] for column in key)).where(sa.true())
        insert = self._database.insert(idempotency_keys).from_select([c.name for c in key], wanted)
        taken = ("request_hash", "job_id", "response", "created_at", "expires_at")
        statement: sa.Executable = insert.on_conflict_do_update(
            index_elements=[key.requester_id, key.idempotency_key],
            set_={name: insert.excluded[name] for name in taken},
            # An expired key is free again.
            where=key.expires_at <= sa.bindparam("now"),
        )
        return statement

    def forget_expired(self, limit: int = 1_000) -> int:
        """Delete expired keys, at most `limit`; return how many."""
        key = idempotency_keys.c
        with self._database.transaction() as connection:
            due = sa.select(key.requester_id, key.idempotency_key).where(key.expires_at <= self._database.now)
            # Skip the rows that a concurrent enqueue has locked: that enqueue is about to reuse their keys.
            due = due.order_by(key.expires_at).limit(limit).with_for_update(skip_locked=True)
            found = connection.execute(due).all()
            rows = Rows({"requester_id": TEXT, "idempotency_key": TEXT})
            dead = sa.select(rows["requester_id"], rows["idempotency_key"])
            gone = sa.delete(idempotency_keys).where(
                sa.tuple_(key.requester_id, key.idempotency_key).in_(dead),
                key.expires_at <= self._database.now,
            )
            return connection.execute(gone, as_parameter(row._asdict() for row in found)).rowcount


def _stored_keys_statement() -> sa.Executable:
    key = idempotency_keys.c
    rows = Rows({"requester_id": TEXT, "idempotency_key": TEXT})
    return sa.select(idempotency_keys).join(
        rows.table,
        sa.and_(
            key.requester_id == rows["requester_id"],
            key.idempotency_key == rows["idempotency_key"],
        ),
    )


def _key_of(job: NewJob) -> tuple[str, str]:
    return job.requester_id, job.key.text if job.key else ""


def _answer(request_hash: str, stored: AnyRow) -> Accepted | IdempotencyConflict:
    if stored.request_hash == request_hash:
        return Accepted(stored.job_id, stored.response, replayed=True)
    return IdempotencyConflict(stored.idempotency_key)


def new_row(job: NewJob, now: int, rank: int | None) -> Row:
    """Return the row of a new job.

    A job that waits neither for its time nor for its group is `ready` if it has a rank, else `capped`.
    """
    available_at = max(now, job.not_before or 0)
    sealed, callbacks, hls_keys = job.sealed, job.sealed_callbacks, job.sealed_hls_keys
    return {
        **_LATER,
        "job_id": job.job_id,
        "requester_id": job.requester_id,
        "external_id": job.external_id,
        "status": JobStatus.QUEUED,
        "lane": lane_when_new(job.group_id, available_at - now, rank),
        "rank": rank,
        "available_at": available_at,
        "claim_version": 0,
        "attempt_count": 0,
        "queue": job.queue,
        "priority": job.priority,
        "group_id": job.group_id,
        "spec": job.spec,
        "max_attempts": job.max_attempts,
        "refresh_count": 0,
        "progress": 0.0,
        "storage_creds_encrypted": sealed and sealed.ciphertext,
        "storage_creds_dek_wrapped": sealed and sealed.dek_wrapped,
        "storage_creds_kek_id": sealed and sealed.kek_id,
        "storage_creds_encryption_version": sealed and sealed.version,
        "credential_version": 1,
        "event_sequence": 0,
        "source_ref": job.source_ref,
        "created_at": now,
        "updated_at": now,
        "callbacks_encrypted": callbacks and callbacks.ciphertext,
        "callbacks_dek_wrapped": callbacks and callbacks.dek_wrapped,
        "callbacks_kek_id": callbacks and callbacks.kek_id,
        "callbacks_encryption_version": callbacks and callbacks.version,
        "hls_key_encrypted": hls_keys and hls_keys.ciphertext,
        "hls_key_dek_wrapped": hls_keys and hls_keys.dek_wrapped,
        "hls_key_kek_id": hls_keys and hls_keys.kek_id,
        "hls_key_encryption_version": hls_keys and hls_keys.version,
    }
