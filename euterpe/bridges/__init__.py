"""Bridges: processes that serve jobs of foreign queues (BullMQ, OmniQ, Redis Streams) from the store.

A lease in a foreign queue is only the right to report there. The work is the row in `inbox_jobs`, which the
`source_ref` of the message makes unique. Adapters of the foreign systems implement `adapter.py`.
"""
