"""The control plane over the store, without an HTTP server: the calls of workers about their jobs."""
