-- The key of a job's encrypted HLS outputs, sealed. It is apart from the credentials, because new credentials of the
-- requester replace those, and do not contain the key. The same columns stand in migrations_pg/; a test compares
-- them.

ALTER TABLE inbox_jobs ADD COLUMN hls_key_encrypted BLOB;
ALTER TABLE inbox_jobs ADD COLUMN hls_key_dek_wrapped BLOB;
ALTER TABLE inbox_jobs ADD COLUMN hls_key_kek_id TEXT;
ALTER TABLE inbox_jobs ADD COLUMN hls_key_encryption_version INTEGER;
