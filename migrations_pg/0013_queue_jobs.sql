-- The queue library `euterpe.queue`: small jobs beside the transcodes, under the same lease protocol, in a table of
-- their own. The same tables, checks and indexes stand in migrations_sqlite/; a test compares them.

-- Text that decides an order of locks is compared byte by byte, as Python and SQLite compare it.
CREATE TABLE queue_jobs (
    queue_job_id TEXT COLLATE "C" NOT NULL,
    queue TEXT COLLATE "C" NOT NULL,
    job_id TEXT NOT NULL,
    status TEXT NOT NULL,
    lane TEXT NOT NULL,
    available_at BIGINT NOT NULL,
    worker_id TEXT,
    claim_version BIGINT NOT NULL,
    lease_expires_at BIGINT,
    heartbeat_at BIGINT,
    attempt_count BIGINT NOT NULL,
    group_id TEXT COLLATE "C",
    place TEXT COLLATE "C" NOT NULL,
    payload TEXT NOT NULL,
    timeout_ms BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    backoff_ms BIGINT NOT NULL,
    last_error TEXT,
    created_at BIGINT NOT NULL,
    finished_at BIGINT,
    PRIMARY KEY (queue_job_id),
    CONSTRAINT queue_jobs_lane CHECK (CASE lane
        WHEN 'ready' THEN status = 'queued'
        WHEN 'delayed' THEN status = 'queued'
        WHEN 'blocked' THEN status = 'queued' AND group_id IS NOT NULL
        WHEN 'leased' THEN status = 'claimed'
        WHEN 'rest' THEN status = 'succeeded' OR status = 'failed'
        ELSE FALSE END),
    CONSTRAINT queue_jobs_lease CHECK (CASE lane
        WHEN 'leased' THEN lease_expires_at IS NOT NULL AND worker_id IS NOT NULL AND heartbeat_at IS NOT NULL
        ELSE lease_expires_at IS NULL AND worker_id IS NULL AND heartbeat_at IS NULL END),
    CONSTRAINT queue_jobs_end CHECK ((lane = 'rest') = (finished_at IS NOT NULL)),
    CONSTRAINT queue_jobs_budget CHECK (attempt_count >= 0 AND attempt_count <= max_attempts),
    CONSTRAINT queue_jobs_times CHECK (timeout_ms >= 1 AND backoff_ms >= 0)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- Partial indexes on the lane, as for the two other queues: finished jobs are only in the last one.
CREATE INDEX queue_jobs_ready ON queue_jobs (queue, available_at, place) WHERE lane = 'ready';
CREATE INDEX queue_jobs_delayed ON queue_jobs (queue, available_at, place) WHERE lane = 'delayed';
CREATE INDEX queue_jobs_leased ON queue_jobs (queue, queue_job_id) WHERE lane = 'leased';
CREATE INDEX queue_jobs_groups ON queue_jobs (queue, group_id, lane, available_at, place) WHERE group_id IS NOT NULL;
CREATE INDEX queue_jobs_finished ON queue_jobs (finished_at, queue_job_id) WHERE lane = 'rest';

CREATE TRIGGER queue_jobs_transition AFTER UPDATE OF status ON queue_jobs FOR EACH ROW
WHEN (NOT (OLD.status = NEW.status OR CASE OLD.status
    WHEN 'queued' THEN NEW.status = 'claimed'
    WHEN 'claimed' THEN NEW.status = 'queued' OR NEW.status = 'succeeded' OR NEW.status = 'failed'
    ELSE FALSE END))
EXECUTE FUNCTION euterpe_reject_transition();

CREATE TABLE queue_groups (
    queue TEXT COLLATE "C" NOT NULL,
    group_id TEXT COLLATE "C" NOT NULL,
    max_running BIGINT NOT NULL,
    PRIMARY KEY (queue, group_id),
    CONSTRAINT queue_groups_limit CHECK (max_running >= 1)
);

-- A queue is paused while it has a row here.
CREATE TABLE queue_pauses (
    queue TEXT COLLATE "C" NOT NULL,
    paused_at BIGINT NOT NULL,
    PRIMARY KEY (queue)
);
