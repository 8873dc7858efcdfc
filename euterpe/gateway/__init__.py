"""The Redis job gateway: an HTTP API for jobs that live in Redis alone. A bridge makes SQL rows of them."""
