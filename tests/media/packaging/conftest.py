"""Fixtures for the tests of packaging."""

from tests.media.packaging.presentations import film

__all__ = ["film"]
