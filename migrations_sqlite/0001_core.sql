-- The durable core. The same tables, checks and indexes stand in migrations_pg/; a test compares them.

CREATE TABLE inbox_jobs (
    job_id TEXT NOT NULL,
    requester_id TEXT NOT NULL,
    external_id TEXT,
    status TEXT NOT NULL,
    lane TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    group_id TEXT,
    spec TEXT NOT NULL,
    available_at INTEGER NOT NULL,
    worker_id TEXT,
    claim_version INTEGER NOT NULL,
    lease_expires_at INTEGER,
    heartbeat_at INTEGER,
    attempt_count INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    refresh_count INTEGER NOT NULL,
    cancel_requested_at INTEGER,
    progress REAL NOT NULL,
    last_error TEXT,
    outputs TEXT,
    source_info TEXT,
    storage_creds_encrypted BLOB,
    storage_creds_dek_wrapped BLOB,
    storage_creds_kek_id TEXT,
    storage_creds_encryption_version INTEGER,
    credential_version INTEGER NOT NULL,
    event_sequence INTEGER NOT NULL,
    source_ref TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    PRIMARY KEY (job_id),
    -- By CASE, which ends at its first match: SQLite makes a table of each IN, and took twice the time for
    -- a transition when these checks and the triggers below were made of them.
    CONSTRAINT inbox_lane CHECK (CASE lane
        WHEN 'ready' THEN status = 'queued'
        WHEN 'delayed' THEN status = 'queued'
        WHEN 'blocked' THEN status = 'queued' AND group_id IS NOT NULL
        WHEN 'leased' THEN status = 'claimed' OR status = 'fetching'
            OR status = 'processing' OR status = 'uploading'
        WHEN 'rest' THEN status = 'succeeded' OR status = 'failed' OR status = 'dead_letter'
        ELSE FALSE END),
    CONSTRAINT inbox_lease CHECK (CASE lane
        WHEN 'leased' THEN lease_expires_at IS NOT NULL AND worker_id IS NOT NULL AND heartbeat_at IS NOT NULL
        ELSE lease_expires_at IS NULL AND worker_id IS NULL AND heartbeat_at IS NULL END),
    CONSTRAINT inbox_budget CHECK (attempt_count >= 0 AND attempt_count <= max_attempts),
    CONSTRAINT inbox_priority CHECK (priority >= 0 AND priority <= 100)
) STRICT;

-- Hot indexes are partial on the lane: finished history is in none of them, and moving between the
-- states of work in progress changes no indexed column.
CREATE INDEX inbox_ready ON inbox_jobs (queue, priority DESC, available_at, job_id) WHERE lane = 'ready';
CREATE INDEX inbox_delayed ON inbox_jobs (available_at, job_id) WHERE lane = 'delayed';
CREATE INDEX inbox_leased ON inbox_jobs (job_id) WHERE lane = 'leased';
CREATE INDEX inbox_groups ON inbox_jobs (queue, requester_id, group_id, lane, created_at, job_id)
    WHERE group_id IS NOT NULL;
CREATE INDEX inbox_requester ON inbox_jobs (requester_id, job_id);
CREATE UNIQUE INDEX inbox_source_ref ON inbox_jobs (source_ref) WHERE source_ref IS NOT NULL;

CREATE TABLE job_attempts (
    attempt_id TEXT NOT NULL,
    job_id TEXT NOT NULL,
    attempt_no INTEGER NOT NULL,
    claim_version INTEGER NOT NULL,
    worker_id TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    outcome TEXT,
    error TEXT,
    timings TEXT,
    PRIMARY KEY (attempt_id),
    CONSTRAINT attempts_ended CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT;

CREATE UNIQUE INDEX attempts_claim ON job_attempts (job_id, claim_version);

CREATE TABLE job_outbox_events (
    event_id TEXT NOT NULL,
    job_id TEXT NOT NULL,
    requester_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    type TEXT NOT NULL,
    payload TEXT NOT NULL,
    status TEXT NOT NULL,
    lane TEXT NOT NULL,
    available_at INTEGER NOT NULL,
    worker_id TEXT,
    claim_version INTEGER NOT NULL DEFAULT 0,
    lease_expires_at INTEGER,
    heartbeat_at INTEGER,
    attempt_count INTEGER NOT NULL DEFAULT 0,
    last_status_code INTEGER,
    last_error TEXT,
    created_at INTEGER NOT NULL,
    delivered_at INTEGER,
    PRIMARY KEY (event_id),
    CONSTRAINT outbox_lane CHECK (CASE lane
        WHEN 'ready' THEN status = 'pending'
        WHEN 'delayed' THEN status = 'pending'
        WHEN 'leased' THEN status = 'claimed'
        WHEN 'rest' THEN status = 'delivered' OR status = 'dead_letter' OR status = 'skipped'
        ELSE FALSE END),
    CONSTRAINT outbox_lease CHECK (CASE lane
        WHEN 'leased' THEN lease_expires_at IS NOT NULL AND worker_id IS NOT NULL AND heartbeat_at IS NOT NULL
        ELSE lease_expires_at IS NULL AND worker_id IS NULL AND heartbeat_at IS NULL END),
    CONSTRAINT outbox_sequence CHECK (sequence >= 1)
) STRICT;

CREATE UNIQUE INDEX outbox_sequence_of_job ON job_outbox_events (job_id, sequence);
CREATE INDEX outbox_ready ON job_outbox_events (available_at, event_id) WHERE lane = 'ready';
CREATE INDEX outbox_delayed ON job_outbox_events (available_at, event_id) WHERE lane = 'delayed';
CREATE INDEX outbox_leased ON job_outbox_events (event_id) WHERE lane = 'leased';
CREATE INDEX outbox_dead ON job_outbox_events (requester_id, event_id) WHERE status = 'dead_letter';

CREATE TABLE idempotency_keys (
    requester_id TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    job_id TEXT NOT NULL,
    response TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (requester_id, idempotency_key)
) STRICT;

CREATE INDEX idempotency_expiry ON idempotency_keys (expires_at);

CREATE TABLE queues (
    queue TEXT NOT NULL,
    paused_at INTEGER,
    PRIMARY KEY (queue)
) STRICT;

CREATE TABLE job_groups (
    queue TEXT NOT NULL,
    requester_id TEXT NOT NULL,
    group_id TEXT NOT NULL,
    max_running INTEGER NOT NULL,
    PRIMARY KEY (queue, requester_id, group_id),
    CONSTRAINT groups_limit CHECK (max_running >= 1)
) STRICT;

CREATE TABLE requesters (
    requester_id TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    disabled_at INTEGER,
    PRIMARY KEY (requester_id)
) STRICT;

CREATE UNIQUE INDEX requesters_name ON requesters (name);

CREATE TABLE api_keys (
    key_id TEXT NOT NULL,
    requester_id TEXT NOT NULL REFERENCES requesters (requester_id),
    secret_hash TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (key_id)
) STRICT;

CREATE INDEX api_keys_requester ON api_keys (requester_id);

CREATE TABLE webhook_secrets (
    secret_id TEXT NOT NULL,
    requester_id TEXT NOT NULL REFERENCES requesters (requester_id),
    secret_encrypted BLOB NOT NULL,
    secret_dek_wrapped BLOB NOT NULL,
    secret_kek_id TEXT NOT NULL,
    secret_encryption_version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (secret_id)
) STRICT;

CREATE INDEX webhook_secrets_requester ON webhook_secrets (requester_id);

CREATE TABLE pruned_jobs (
    job_id TEXT NOT NULL,
    requester_id TEXT NOT NULL,
    pruned_at INTEGER NOT NULL,
    PRIMARY KEY (job_id)
) STRICT;

-- The state machines, for whoever writes SQL by hand (contract §3).
CREATE TRIGGER inbox_transition AFTER UPDATE OF status ON inbox_jobs
WHEN NOT (OLD.status = NEW.status OR CASE OLD.status
    WHEN 'queued' THEN NEW.status = 'claimed'
    WHEN 'claimed' THEN NEW.status = 'fetching' OR NEW.status = 'queued' OR NEW.status = 'failed'
    WHEN 'fetching' THEN NEW.status = 'processing' OR NEW.status = 'queued' OR NEW.status = 'failed'
    WHEN 'processing' THEN NEW.status = 'uploading' OR NEW.status = 'queued' OR NEW.status = 'failed'
    WHEN 'uploading' THEN NEW.status = 'succeeded' OR NEW.status = 'queued' OR NEW.status = 'failed'
    WHEN 'failed' THEN NEW.status = 'dead_letter'
        OR (NEW.status = 'queued' AND OLD.attempt_count < OLD.max_attempts)
    ELSE FALSE END)
BEGIN
    SELECT RAISE(ABORT, 'euterpe: invalid transition');
END;

CREATE TRIGGER outbox_transition AFTER UPDATE OF status ON job_outbox_events
WHEN NOT (OLD.status = NEW.status OR CASE OLD.status
    WHEN 'pending' THEN NEW.status = 'claimed'
    WHEN 'claimed' THEN NEW.status = 'delivered' OR NEW.status = 'pending' OR NEW.status = 'dead_letter'
    WHEN 'delivered' THEN NEW.status = 'pending'
    WHEN 'dead_letter' THEN NEW.status = 'pending'
    ELSE FALSE END)
BEGIN
    SELECT RAISE(ABORT, 'euterpe: invalid transition');
END;
