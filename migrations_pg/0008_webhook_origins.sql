-- What is known of the receivers of webhooks that do not answer. The same tables, checks and indexes stand in
-- migrations_sqlite/; a test compares them.

CREATE TABLE webhook_origins (
    requester_id TEXT NOT NULL,
    origin TEXT NOT NULL,
    state TEXT NOT NULL,
    failures BIGINT NOT NULL,
    failing_since BIGINT NOT NULL,
    retry_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (requester_id, origin),
    CONSTRAINT origins_state CHECK (state IN ('down', 'refusing', 'recovered'))
);

CREATE INDEX origins_recovered ON webhook_origins (updated_at) WHERE state = 'recovered';

-- The receiver that an event waits for: its scheme, host and port, and never its path or its query.
ALTER TABLE job_outbox_events ADD COLUMN origin TEXT;

-- Empty while all receivers answer: then it costs nothing.
CREATE INDEX outbox_waiting ON job_outbox_events (requester_id, origin, event_id)
    WHERE lane = 'delayed' AND origin IS NOT NULL;

-- Claims go from requester to requester, so that no backlog of one is in another's way.
DROP INDEX outbox_ready;
CREATE INDEX outbox_ready ON job_outbox_events (requester_id COLLATE "C", available_at, event_id) WHERE lane = 'ready';
-- The sweep takes from each requester where one has more events due than a sweep can take.
CREATE INDEX outbox_due ON job_outbox_events (requester_id, available_at, event_id) WHERE lane = 'delayed';
