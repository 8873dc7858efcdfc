"""The only package that speaks SQL: tables, engines, leases, inbox, outbox, idempotency."""
