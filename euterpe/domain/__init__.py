"""Domain rules as pure functions and values: states, retries, job spec, events. No I/O, no clock, no SQL."""
