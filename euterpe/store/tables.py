"""Table definitions for all engines.

The migrations create the tables. Tests compare these definitions with the migrations of SQLite and Postgres.

The tables of jobs, attempts, events and deliveries have no foreign keys. To check a foreign key, the database
would read and lock the job of each inserted event, although the same transaction has locked this job already.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    ForeignKey,
    LargeBinary,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData()
json_document = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def _leased() -> list[Column[object]]:
    """Return the columns that claims and leases (`leases.py`) need besides the key and the status."""
    return [
        Column("lane", Text, nullable=False),
        Column("available_at", BigInteger, nullable=False),
        Column("worker_id", Text),
        Column("claim_version", BigInteger, nullable=False),
        Column("lease_expires_at", BigInteger),
        Column("heartbeat_at", BigInteger),
        Column("attempt_count", BigInteger, nullable=False),
    ]


inbox_jobs = Table(
    "inbox_jobs",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("requester_id", Text, nullable=False),
    Column("external_id", Text),
    Column("status", Text, nullable=False),
    *_leased(),
    Column("queue", Text, nullable=False),
    Column("priority", BigInteger, nullable=False),
    Column("group_id", Text),
    Column("spec", json_document, nullable=False),
    Column("max_attempts", BigInteger, nullable=False),
    Column("refresh_count", BigInteger, nullable=False),
    Column("cancel_requested_at", BigInteger),
    Column("progress", Float, nullable=False),
    Column("eta_seconds", Float),
    Column("speed", Float),
    Column("last_error", json_document),
    Column("outputs", json_document),
    Column("source_info", json_document),
    Column("warnings", json_document),
    Column("storage_creds_encrypted", LargeBinary),
    Column("storage_creds_dek_wrapped", LargeBinary),
    Column("storage_creds_kek_id", Text),
    Column("storage_creds_encryption_version", BigInteger),
    Column("credential_version", BigInteger, nullable=False),
    Column("event_sequence", BigInteger, nullable=False),
    Column("source_ref", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("rank", BigInteger),
    Column("callbacks_encrypted", LargeBinary),
    Column("callbacks_dek_wrapped", LargeBinary),
    Column("callbacks_kek_id", Text),
    Column("callbacks_encryption_version", BigInteger),
    Column("hls_key_encrypted", LargeBinary),
    Column("hls_key_dek_wrapped", LargeBinary),
    Column("hls_key_kek_id", Text),
    Column("hls_key_encryption_version", BigInteger),
    Column("hold_until", BigInteger),
)

job_attempts = Table(
    "job_attempts",
    metadata,
    Column("attempt_id", Text, primary_key=True),
    Column("job_id", Text, nullable=False),
    Column("attempt_no", BigInteger, nullable=False),
    Column("claim_version", BigInteger, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("outcome", Text),
    Column("error", json_document),
    Column("timings", json_document),
    Column("claim_id", Text),
    Column("end_status", Text),
    Column("next_attempt_at", BigInteger),
    Column("result", json_document),
)

job_outbox_events = Table(
    "job_outbox_events",
    metadata,
    Column("event_id", Text, primary_key=True),
    Column("job_id", Text, nullable=False),
    Column("requester_id", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("status", Text, nullable=False),
    *_leased(),
    Column("last_status_code", BigInteger),
    Column("last_error", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("delivered_at", BigInteger),
    Column("origin", Text),
)

job_deliveries = Table(
    "job_deliveries",
    metadata,
    Column("delivery_id", Text, primary_key=True),
    Column("event_id", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("requester_id", Text, nullable=False),
    Column("claim_version", BigInteger, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("status_code", BigInteger),
    Column("error", Text),
    Column("answer", Text),
    Column("duration_ms", BigInteger, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("requester_id", Text, primary_key=True),
    Column("idempotency_key", Text, primary_key=True),
    Column("request_hash", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("response", json_document, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)

queues = Table(
    "queues",
    metadata,
    Column("queue", Text, primary_key=True),
    Column("paused_at", BigInteger),
    Column("virtual_time", BigInteger, nullable=False, server_default="0"),
)

job_groups = Table(
    "job_groups",
    metadata,
    Column("queue", Text, primary_key=True),
    Column("requester_id", Text, primary_key=True),
    Column("group_id", Text, primary_key=True),
    Column("max_running", BigInteger, nullable=False),
)

queue_jobs = Table(
    "queue_jobs",
    metadata,
    Column("queue_job_id", Text, primary_key=True),
    Column("queue", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("status", Text, nullable=False),
    *_leased(),
    Column("group_id", Text),
    Column("place", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("timeout_ms", BigInteger, nullable=False),
    Column("max_attempts", BigInteger, nullable=False),
    Column("backoff_ms", BigInteger, nullable=False),
    Column("last_error", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
)

queue_groups = Table(
    "queue_groups",
    metadata,
    Column("queue", Text, primary_key=True),
    Column("group_id", Text, primary_key=True),
    Column("max_running", BigInteger, nullable=False),
)

queue_pauses = Table(
    "queue_pauses",
    metadata,
    Column("queue", Text, primary_key=True),
    Column("paused_at", BigInteger, nullable=False),
)

fair_shares = Table(
    "fair_shares",
    metadata,
    Column("queue", Text, primary_key=True),
    Column("requester_id", Text, primary_key=True),
    Column("finish", BigInteger, nullable=False),
    Column("charged", BigInteger, nullable=False),
    Column("priority", BigInteger, nullable=False),
    Column("is_mixed", BigInteger, nullable=False),
    Column("max_running", BigInteger),
)

requesters = Table(
    "requesters",
    metadata,
    Column("requester_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("disabled_at", BigInteger),
    Column("weight", BigInteger, nullable=False, server_default="100"),
    Column("max_running", BigInteger),
    Column("max_timeout_seconds", BigInteger),
    Column("max_attempts", BigInteger),
    Column("max_priority", BigInteger),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("requester_id", Text, ForeignKey("requesters.requester_id"), nullable=False),
    Column("secret_hash", Text, nullable=False),
    Column("scopes", json_document, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
)

webhook_secrets = Table(
    "webhook_secrets",
    metadata,
    Column("secret_id", Text, primary_key=True),
    Column("requester_id", Text, ForeignKey("requesters.requester_id"), nullable=False),
    Column("secret_encrypted", LargeBinary, nullable=False),
    Column("secret_dek_wrapped", LargeBinary, nullable=False),
    Column("secret_kek_id", Text, nullable=False),
    Column("secret_encryption_version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
)

service_secrets = Table(
    "service_secrets",
    metadata,
    Column("secret_id", Text, primary_key=True),
    Column("purpose", Text, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("secret_encrypted", LargeBinary, nullable=False),
    Column("secret_dek_wrapped", LargeBinary, nullable=False),
    Column("secret_kek_id", Text, nullable=False),
    Column("secret_encryption_version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
)

webhook_origins = Table(
    "webhook_origins",
    metadata,
    Column("requester_id", Text, primary_key=True),
    Column("origin", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("failures", BigInteger, nullable=False),
    Column("failing_since", BigInteger, nullable=False),
    Column("retry_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

pruned_jobs = Table(
    "pruned_jobs",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("requester_id", Text, nullable=False),
    Column("pruned_at", BigInteger, nullable=False),
    Column("source_ref", Text),
)

write_probe = Table(
    "write_probe",
    metadata,
    Column("probe_id", BigInteger, primary_key=True, autoincrement=False),
    Column("written_at", BigInteger, nullable=False),
)

schema_migrations = Table(
    "schema_migrations",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("applied_at", BigInteger, nullable=False),
)

# Analytics reads these tables in commit order: on Postgres by the column `position`, on SQLite and libSQL by
# the rowid.
COMMIT_ORDERED_TABLES = (inbox_jobs, job_outbox_events, job_deliveries)


def column_names(table: Table, dialect: str) -> set[str]:
    """Return the names of the columns that the table has in databases of this dialect."""
    names = set(table.columns.keys())
    return names | {"position"} if table in COMMIT_ORDERED_TABLES and dialect == "postgresql" else names
