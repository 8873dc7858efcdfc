"""Webhook delivery: claim events from the outbox and send them to requesters as signed webhooks."""
