"""Benchmarks of an installation, run on its own machine and its own database."""
