"""Background loop, lease keeper, retry and jitter. This package contains no rules of the domain."""
