-- The history in the order of commits, for analytics. Postgres alone needs a column for it: what SQLite wrote
-- earlier has the lower rowid, because it has one writer.

-- Inserted by which transaction. Below the oldest transaction that still runs, nothing can be added any more:
-- whoever reads up to there, and from there the next time, misses nothing and reads nothing twice.
ALTER TABLE inbox_jobs ADD COLUMN position BIGINT NOT NULL DEFAULT (pg_current_xact_id()::text::bigint);
ALTER TABLE job_outbox_events ADD COLUMN position BIGINT NOT NULL DEFAULT (pg_current_xact_id()::text::bigint);
ALTER TABLE job_deliveries ADD COLUMN position BIGINT NOT NULL DEFAULT (pg_current_xact_id()::text::bigint);

-- BRIN: a row's insert costs next to nothing, and an update of the row nothing at all.
CREATE INDEX inbox_position ON inbox_jobs USING brin (position) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX outbox_position ON job_outbox_events USING brin (position) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX deliveries_position ON job_deliveries USING brin (position) WITH (pages_per_range = 32, autosummarize = on);
