-- Room on each page for the next version of all its rows: a job is rewritten five times and an attempt once, by
-- transactions that move whole pages of them. With less room a third of the versions went to other pages, each
-- with new index entries, and both tables ended up larger.
ALTER TABLE inbox_jobs SET (fillfactor = 50);
ALTER TABLE job_attempts SET (fillfactor = 50);
