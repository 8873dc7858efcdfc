-- One row, which is written to find out whether the database takes writes.
CREATE TABLE write_probe (
    probe_id INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    PRIMARY KEY (probe_id)
) STRICT;
