"""The only package that uses SQL: tables, engines, leases, inbox, outbox, idempotency, history, secrets."""
