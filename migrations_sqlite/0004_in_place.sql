-- Room for new versions of rows: SQLite writes each where the old one was.
SELECT 1;
