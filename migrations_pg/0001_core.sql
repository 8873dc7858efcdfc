-- The durable core. The same tables, checks and indexes stand in migrations_sqlite/; a test compares them.

CREATE TABLE inbox_jobs (
    job_id TEXT NOT NULL,
    requester_id TEXT NOT NULL,
    external_id TEXT,
    status TEXT NOT NULL,
    lane TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority BIGINT NOT NULL,
    group_id TEXT,
    spec JSONB NOT NULL,
    available_at BIGINT NOT NULL,
    worker_id TEXT,
    claim_version BIGINT NOT NULL,
    lease_expires_at BIGINT,
    heartbeat_at BIGINT,
    attempt_count BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    refresh_count BIGINT NOT NULL,
    cancel_requested_at BIGINT,
    progress DOUBLE PRECISION NOT NULL,
    last_error JSONB,
    outputs JSONB,
    source_info JSONB,
    storage_creds_encrypted BYTEA,
    storage_creds_dek_wrapped BYTEA,
    storage_creds_kek_id TEXT,
    storage_creds_encryption_version BIGINT,
    credential_version BIGINT NOT NULL,
    event_sequence BIGINT NOT NULL,
    source_ref TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
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
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

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
    attempt_no BIGINT NOT NULL,
    claim_version BIGINT NOT NULL,
    worker_id TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    outcome TEXT,
    error JSONB,
    timings JSONB,
    PRIMARY KEY (attempt_id),
    CONSTRAINT attempts_ended CHECK ((ended_at IS NULL) = (outcome IS NULL))
);

CREATE UNIQUE INDEX attempts_claim ON job_attempts (job_id, claim_version);

CREATE TABLE job_outbox_events (
    event_id TEXT NOT NULL,
    job_id TEXT NOT NULL,
    requester_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    type TEXT NOT NULL,
    payload TEXT NOT NULL,
    status TEXT NOT NULL,
    lane TEXT NOT NULL,
    available_at BIGINT NOT NULL,
    worker_id TEXT,
    claim_version BIGINT NOT NULL DEFAULT 0,
    lease_expires_at BIGINT,
    heartbeat_at BIGINT,
    attempt_count BIGINT NOT NULL DEFAULT 0,
    last_status_code BIGINT,
    last_error TEXT,
    created_at BIGINT NOT NULL,
    delivered_at BIGINT,
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
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

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
    response JSONB NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (requester_id, idempotency_key)
);

CREATE INDEX idempotency_expiry ON idempotency_keys (expires_at);

CREATE TABLE queues (
    queue TEXT NOT NULL,
    paused_at BIGINT,
    PRIMARY KEY (queue)
);

CREATE TABLE job_groups (
    queue TEXT NOT NULL,
    requester_id TEXT NOT NULL,
    group_id TEXT NOT NULL,
    max_running BIGINT NOT NULL,
    PRIMARY KEY (queue, requester_id, group_id),
    CONSTRAINT groups_limit CHECK (max_running >= 1)
);

CREATE TABLE requesters (
    requester_id TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    disabled_at BIGINT,
    PRIMARY KEY (requester_id)
);

CREATE UNIQUE INDEX requesters_name ON requesters (name);

CREATE TABLE api_keys (
    key_id TEXT NOT NULL,
    requester_id TEXT NOT NULL REFERENCES requesters (requester_id),
    secret_hash TEXT NOT NULL,
    scopes JSONB NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    PRIMARY KEY (key_id)
);

CREATE INDEX api_keys_requester ON api_keys (requester_id);

CREATE TABLE webhook_secrets (
    secret_id TEXT NOT NULL,
    requester_id TEXT NOT NULL REFERENCES requesters (requester_id),
    secret_encrypted BYTEA NOT NULL,
    secret_dek_wrapped BYTEA NOT NULL,
    secret_kek_id TEXT NOT NULL,
    secret_encryption_version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    PRIMARY KEY (secret_id)
);

CREATE INDEX webhook_secrets_requester ON webhook_secrets (requester_id);

CREATE TABLE pruned_jobs (
    job_id TEXT NOT NULL,
    requester_id TEXT NOT NULL,
    pruned_at BIGINT NOT NULL,
    PRIMARY KEY (job_id)
);

-- The state machines, for whoever writes SQL by hand (contract §3). AFTER: a BEFORE trigger locks each row
-- once more, even where its WHEN is false.
CREATE FUNCTION euterpe_reject_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'euterpe: invalid transition % -> %', OLD.status, NEW.status USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER inbox_transition AFTER UPDATE OF status ON inbox_jobs FOR EACH ROW
WHEN (NOT (OLD.status = NEW.status OR CASE OLD.status
    WHEN 'queued' THEN NEW.status = 'claimed'
    WHEN 'claimed' THEN NEW.status = 'fetching' OR NEW.status = 'queued' OR NEW.status = 'failed'
    WHEN 'fetching' THEN NEW.status = 'processing' OR NEW.status = 'queued' OR NEW.status = 'failed'
    WHEN 'processing' THEN NEW.status = 'uploading' OR NEW.status = 'queued' OR NEW.status = 'failed'
    WHEN 'uploading' THEN NEW.status = 'succeeded' OR NEW.status = 'queued' OR NEW.status = 'failed'
    WHEN 'failed' THEN NEW.status = 'dead_letter'
        OR (NEW.status = 'queued' AND OLD.attempt_count < OLD.max_attempts)
    ELSE FALSE END))
EXECUTE FUNCTION euterpe_reject_transition();

CREATE TRIGGER outbox_transition AFTER UPDATE OF status ON job_outbox_events FOR EACH ROW
WHEN (NOT (OLD.status = NEW.status OR CASE OLD.status
    WHEN 'pending' THEN NEW.status = 'claimed'
    WHEN 'claimed' THEN NEW.status = 'delivered' OR NEW.status = 'pending' OR NEW.status = 'dead_letter'
    WHEN 'delivered' THEN NEW.status = 'pending'
    WHEN 'dead_letter' THEN NEW.status = 'pending'
    ELSE FALSE END))
EXECUTE FUNCTION euterpe_reject_transition();
