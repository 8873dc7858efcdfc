"""Fixtures for the tests of media: clips, sources and sandboxes."""

from tests.media.clips import clips, own_sandbox, sandbox
from tests.media.sources.cache import sources

__all__ = ["clips", "own_sandbox", "sandbox", "sources"]
