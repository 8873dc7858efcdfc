"""Background loop, lease keeper, retry, jitter and install hint. This package has no rules of the domain."""
