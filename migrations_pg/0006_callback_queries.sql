-- The queries of a job's webhook and refresh URLs, sealed. They stay as long as the job: a webhook may be delivered,
-- or replayed, long after the job's credentials are forgotten.
ALTER TABLE inbox_jobs ADD COLUMN callbacks_encrypted BYTEA;
ALTER TABLE inbox_jobs ADD COLUMN callbacks_dek_wrapped BYTEA;
ALTER TABLE inbox_jobs ADD COLUMN callbacks_kek_id TEXT;
ALTER TABLE inbox_jobs ADD COLUMN callbacks_encryption_version BIGINT;
