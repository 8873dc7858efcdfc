"""The HTTP API: a Starlette app that calls the synchronous store in thread pools."""
