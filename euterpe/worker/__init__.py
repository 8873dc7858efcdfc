"""The worker: claims jobs, extends their leases by heartbeats, and runs attempts: fetch, encode, upload."""
