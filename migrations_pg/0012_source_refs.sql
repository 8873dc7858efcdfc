-- A message of a foreign queue makes one job, also after the job was pruned. The same column and index stand in
-- migrations_sqlite/; a test compares them.
ALTER TABLE pruned_jobs ADD COLUMN source_ref TEXT;
CREATE INDEX pruned_source_ref ON pruned_jobs (source_ref) WHERE source_ref IS NOT NULL;
