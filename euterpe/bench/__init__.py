"""Benchmarks of an installation. The benchmarks run on the machine and the database of the installation."""
