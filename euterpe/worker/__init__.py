"""The worker: claims jobs, extends leases by heartbeats, and runs attempts (fetch, encode, upload)."""
