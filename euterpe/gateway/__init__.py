"""The Redis job gateway: an HTTP API for jobs that live in Redis alone. A bridge joins them with SQL."""
