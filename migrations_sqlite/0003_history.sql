-- The history in the order of commits, for analytics. Postgres alone needs a column for it: what SQLite wrote
-- earlier has the lower rowid, because it has one writer.
SELECT 1;
