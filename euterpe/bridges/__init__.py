"""Bridges: processes that serve jobs of foreign queues (BullMQ, OmniQ, Redis Streams) from the store.

A lease in a foreign queue only allows the bridge to report to this queue. The job itself is a row in
`inbox_jobs`. The column `source_ref` allows one row per foreign job. Adapters of the foreign systems
implement `adapter.py`.
"""
