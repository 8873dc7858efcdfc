-- What a worker without a connection to the database needs: a claim or an end of an attempt whose answer was lost is
-- repeated, and gets its first answer again. The same columns and indexes stand in migrations_sqlite/; a test compares them.

-- The request that claimed the attempt. It is not unique: one request may claim several jobs.
ALTER TABLE job_attempts ADD COLUMN claim_id TEXT;
CREATE INDEX attempts_claim_id ON job_attempts (claim_id) WHERE claim_id IS NOT NULL;

-- The first answer: the job's status after the attempt, and the instant from which it may be claimed again.
ALTER TABLE job_attempts ADD COLUMN end_status TEXT;
ALTER TABLE job_attempts ADD COLUMN next_attempt_at BIGINT;
-- The part of a worker's result that Euterpe does not read.
ALTER TABLE job_attempts ADD COLUMN result JSONB;

-- Secrets of the service itself, sealed: the keys of the lease tokens.
CREATE TABLE service_secrets (
    secret_id TEXT NOT NULL,
    purpose TEXT NOT NULL,
    number BIGINT NOT NULL,
    secret_encrypted BYTEA NOT NULL,
    secret_dek_wrapped BYTEA NOT NULL,
    secret_kek_id TEXT NOT NULL,
    secret_encryption_version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    PRIMARY KEY (secret_id)
);
