-- Fair share between requesters, and caps on what each runs at once. The same tables, columns, checks and indexes
-- stand in migrations_sqlite/; a test compares the databases that both make.

-- A turn in the queue: claims take the lowest rank first. Every job in the lane 'ready' has one.
ALTER TABLE inbox_jobs ADD COLUMN rank BIGINT;

-- The sweep gives each of these a turn, in the order of their waiting.
UPDATE inbox_jobs SET lane = 'delayed' WHERE lane = 'ready';

ALTER TABLE inbox_jobs DROP CONSTRAINT inbox_lane;
ALTER TABLE inbox_jobs ADD CONSTRAINT inbox_lane CHECK (CASE lane
        WHEN 'ready' THEN status = 'queued' AND rank IS NOT NULL
        WHEN 'delayed' THEN status = 'queued'
        WHEN 'blocked' THEN status = 'queued' AND group_id IS NOT NULL
        WHEN 'capped' THEN status = 'queued'
        WHEN 'leased' THEN status = 'claimed' OR status = 'fetching'
            OR status = 'processing' OR status = 'uploading'
        WHEN 'rest' THEN status = 'succeeded' OR status = 'failed' OR status = 'dead_letter'
        ELSE FALSE END);

DROP INDEX inbox_ready;
DROP INDEX inbox_unfinished;
CREATE INDEX inbox_turns ON inbox_jobs (queue, rank) WHERE lane = 'ready';
-- Which job of a requester takes its next turn: the one of the highest priority that has waited longest.
CREATE INDEX inbox_ready ON inbox_jobs (requester_id, queue, priority DESC, available_at, job_id) WHERE lane = 'ready';
CREATE INDEX inbox_capped ON inbox_jobs (requester_id, priority DESC, available_at, job_id) WHERE lane = 'capped';
-- Quotas count the unfinished jobs of a requester, and caps those that are ready or leased: each lane in its own
-- index. One index over all unfinished jobs was written three times in the life of a job, for nothing else.
DROP INDEX inbox_leased;
CREATE INDEX inbox_leased ON inbox_jobs (requester_id, queue) WHERE lane = 'leased';
-- The sweep takes from each requester where one has more jobs due than a sweep can take.
CREATE INDEX inbox_due ON inbox_jobs (requester_id, available_at, job_id) WHERE lane = 'delayed';
CREATE INDEX inbox_parked ON inbox_jobs (requester_id, lane, queue)
    WHERE lane = 'delayed' OR lane = 'blocked' OR lane = 'capped';

-- Start-time fair queueing. The virtual time of a queue is the highest rank that was ever claimed from it.
ALTER TABLE queues ADD COLUMN virtual_time BIGINT NOT NULL DEFAULT 0;

CREATE TABLE fair_shares (
    queue TEXT NOT NULL,
    requester_id TEXT NOT NULL,
    finish BIGINT NOT NULL,
    charged BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    is_mixed BIGINT NOT NULL,
    max_running BIGINT,
    PRIMARY KEY (queue, requester_id)
);

-- What the operator allows a requester; NULL leaves it to the settings.
ALTER TABLE requesters ADD COLUMN weight BIGINT NOT NULL DEFAULT 100;
ALTER TABLE requesters ADD COLUMN max_running BIGINT;
ALTER TABLE requesters ADD COLUMN max_timeout_seconds BIGINT;
ALTER TABLE requesters ADD COLUMN max_attempts BIGINT;
ALTER TABLE requesters ADD COLUMN max_priority BIGINT;
