"""Fixtures for the tests of outputs."""

from tests.media.outputs.product_path import cpu_seconds, make, make_marked

__all__ = ["cpu_seconds", "make", "make_marked"]
