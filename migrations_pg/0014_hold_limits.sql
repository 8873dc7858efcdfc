-- The time after which no heartbeat extends the lease of a job: the timeout of the job after its claim, and a grace
-- time. The same column stands in migrations_sqlite/; a test compares them.
ALTER TABLE inbox_jobs ADD COLUMN hold_until BIGINT;
