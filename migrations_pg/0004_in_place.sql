-- Room on each page for the next version of all its rows: a job is rewritten five times and an attempt once, by
-- transactions that move whole pages of them. With less, a third of the versions of a batch of 250 went to other
-- pages, each with new index entries, and table and indexes together ended up larger.
ALTER TABLE inbox_jobs SET (fillfactor = 50);
ALTER TABLE job_attempts SET (fillfactor = 50);
