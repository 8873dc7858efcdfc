"""Fixtures for the tests of media: clips and sandboxes."""

from tests.media.clips import clips, own_sandbox, sandbox

__all__ = ["clips", "own_sandbox", "sandbox"]
