"""Find the facts of a source: the probe runs in a sandboxed child, and the worker validates its answer."""
