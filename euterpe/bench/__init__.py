"""Benchmarks of an installation. They run on the machine and the database of the installation."""
