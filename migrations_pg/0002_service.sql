-- What the service adds. The same tables, checks and indexes stand in migrations_sqlite/; a test compares them.

ALTER TABLE inbox_jobs ADD COLUMN eta_seconds DOUBLE PRECISION;
ALTER TABLE inbox_jobs ADD COLUMN speed DOUBLE PRECISION;

-- What a requester has in the works: quotas count here, and history is not in it.
CREATE INDEX inbox_unfinished ON inbox_jobs (requester_id) WHERE lane <> 'rest';

-- The delivery log: a row for each attempt to tell an event.
CREATE TABLE job_deliveries (
    delivery_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    job_id TEXT NOT NULL,
    requester_id TEXT NOT NULL,
    claim_version BIGINT NOT NULL,
    worker_id TEXT NOT NULL,
    outcome TEXT NOT NULL,
    status_code BIGINT,
    error TEXT,
    answer TEXT,
    duration_ms BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    PRIMARY KEY (delivery_id),
    CONSTRAINT deliveries_outcome CHECK (outcome IN ('delivered', 'pending', 'dead_letter'))
);

CREATE UNIQUE INDEX deliveries_claim ON job_deliveries (event_id, claim_version);
CREATE INDEX deliveries_job ON job_deliveries (job_id);
