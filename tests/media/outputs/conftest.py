"""Fixtures for the tests of what the product makes."""

from tests.media.outputs.product_path import cpu_seconds, make

__all__ = ["cpu_seconds", "make"]
