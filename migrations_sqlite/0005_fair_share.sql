-- Fair share between requesters, and caps on what each runs at once. The same tables, columns, checks and indexes
-- stand in migrations_pg/; a test compares the databases that both make.

-- SQLite cannot change a CHECK: the table is made anew. The row ids stay, because analytics reads by them.
-- The sweep gives each job that was ready a turn, in the order of their waiting.
CREATE TABLE inbox_jobs_new (
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
    eta_seconds REAL,
    speed REAL,
    -- A turn in the queue: claims take the lowest rank first. Every job in the lane 'ready' has one.
    rank INTEGER,
    PRIMARY KEY (job_id),
    CONSTRAINT inbox_lane CHECK (CASE lane
        WHEN 'ready' THEN status = 'queued' AND rank IS NOT NULL
        WHEN 'delayed' THEN status = 'queued'
        WHEN 'blocked' THEN status = 'queued' AND group_id IS NOT NULL
        WHEN 'capped' THEN status = 'queued'
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

INSERT INTO inbox_jobs_new (
    rowid,
    job_id, requester_id, external_id, status, lane, queue, priority, group_id, spec, available_at,
    worker_id, claim_version, lease_expires_at, heartbeat_at, attempt_count, max_attempts, refresh_count,
    cancel_requested_at, progress, last_error, outputs, source_info, storage_creds_encrypted,
    storage_creds_dek_wrapped, storage_creds_kek_id, storage_creds_encryption_version, credential_version,
    event_sequence, source_ref, created_at, updated_at, started_at, finished_at, eta_seconds, speed
) SELECT
    rowid,
    job_id, requester_id, external_id, status, CASE lane WHEN 'ready' THEN 'delayed' ELSE lane END, queue,
    priority, group_id, spec, available_at, worker_id, claim_version, lease_expires_at, heartbeat_at,
    attempt_count, max_attempts, refresh_count, cancel_requested_at, progress, last_error, outputs,
    source_info, storage_creds_encrypted, storage_creds_dek_wrapped, storage_creds_kek_id,
    storage_creds_encryption_version, credential_version, event_sequence, source_ref, created_at,
    updated_at, started_at, finished_at, eta_seconds, speed
FROM inbox_jobs ORDER BY rowid;

DROP TABLE inbox_jobs;
ALTER TABLE inbox_jobs_new RENAME TO inbox_jobs;

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


CREATE INDEX inbox_delayed ON inbox_jobs (available_at, job_id) WHERE lane = 'delayed';
CREATE INDEX inbox_groups ON inbox_jobs (queue, requester_id, group_id, lane, created_at, job_id)
    WHERE group_id IS NOT NULL;
CREATE INDEX inbox_requester ON inbox_jobs (requester_id, job_id);
CREATE UNIQUE INDEX inbox_source_ref ON inbox_jobs (source_ref) WHERE source_ref IS NOT NULL;
CREATE INDEX inbox_turns ON inbox_jobs (queue, rank) WHERE lane = 'ready';
-- Which job of a requester takes its next turn: the one of the highest priority that has waited longest.
CREATE INDEX inbox_ready ON inbox_jobs (requester_id, queue, priority DESC, available_at, job_id) WHERE lane = 'ready';
CREATE INDEX inbox_capped ON inbox_jobs (requester_id, priority DESC, available_at, job_id) WHERE lane = 'capped';
-- Quotas count the unfinished jobs of a requester, and caps those that are ready or leased: each lane in its own
-- index. One index over all unfinished jobs was written three times in the life of a job, for nothing else.
CREATE INDEX inbox_leased ON inbox_jobs (requester_id, queue) WHERE lane = 'leased';
-- The sweep takes from each requester where one has more jobs due than a sweep can take.
CREATE INDEX inbox_due ON inbox_jobs (requester_id, available_at, job_id) WHERE lane = 'delayed';
CREATE INDEX inbox_parked ON inbox_jobs (requester_id, lane, queue)
    WHERE lane = 'delayed' OR lane = 'blocked' OR lane = 'capped';

-- Start-time fair queueing. The virtual time of a queue is the highest rank that was ever claimed from it.
ALTER TABLE queues ADD COLUMN virtual_time INTEGER NOT NULL DEFAULT 0;

CREATE TABLE fair_shares (
    queue TEXT NOT NULL,
    requester_id TEXT NOT NULL,
    finish INTEGER NOT NULL,
    charged INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    is_mixed INTEGER NOT NULL,
    max_running INTEGER,
    PRIMARY KEY (queue, requester_id)
) STRICT;

-- What the operator allows a requester; NULL leaves it to the settings.
ALTER TABLE requesters ADD COLUMN weight INTEGER NOT NULL DEFAULT 100;
ALTER TABLE requesters ADD COLUMN max_running INTEGER;
ALTER TABLE requesters ADD COLUMN max_timeout_seconds INTEGER;
ALTER TABLE requesters ADD COLUMN max_attempts INTEGER;
ALTER TABLE requesters ADD COLUMN max_priority INTEGER;
