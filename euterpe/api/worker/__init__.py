"""The calls of remote workers: POST /internal/worker/… (docs/contract-workers.md)."""
