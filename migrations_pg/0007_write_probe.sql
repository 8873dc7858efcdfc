-- One row, which is written to find out whether the database takes writes.
CREATE TABLE write_probe (
    probe_id BIGINT NOT NULL,
    written_at BIGINT NOT NULL,
    PRIMARY KEY (probe_id)
);
