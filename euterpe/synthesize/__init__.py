"""Generate a realistic history with the rows that the store would write, reproducible from a seed."""
