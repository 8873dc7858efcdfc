"""Run things: a background loop, a lease keeper, a retry and jitter. Rules of the domain are elsewhere."""
