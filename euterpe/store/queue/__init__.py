"""Move jobs and events through their states: leases, transitions, enqueue, inbox, outbox."""
