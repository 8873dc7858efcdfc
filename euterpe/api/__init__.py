"""The HTTP service: a Starlette app over the synchronous store."""
