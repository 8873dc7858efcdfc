"""Telling requesters: the outbox, delivered as signed webhooks."""
