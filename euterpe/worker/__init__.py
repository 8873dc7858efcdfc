"""The worker: claims jobs, keeps their leases alive, and takes each through fetch, encode and upload."""
