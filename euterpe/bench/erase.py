"""Delete all rows of a requester that a benchmark has created."""

import sqlalchemy as sa

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
        # Lock the jobs first: a worker that is writing to one of them could insert events after the DELETE.
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
    """Return the condition that a queue has shares of this requester only and is not paused."""
    share = fair_shares.c
    own = sa.select(share.queue).where(share.requester_id == requester_id)
    others = sa.select(share.queue).where(share.requester_id != requester_id)
    return sa.and_(queues.c.queue.in_(own), queues.c.queue.not_in(others), queues.c.paused_at.is_(None))
