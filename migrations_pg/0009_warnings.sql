-- What an output lacks of its source, or of the request. The same column stands in migrations_sqlite/; a test
-- compares them.

ALTER TABLE inbox_jobs ADD COLUMN warnings JSONB;
