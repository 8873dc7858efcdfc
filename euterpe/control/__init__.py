"""The control plane over the store: the calls of workers about their jobs. It has no HTTP server."""
