"""The control plane: what a worker may ask about its jobs, over the store. It has no HTTP server."""
