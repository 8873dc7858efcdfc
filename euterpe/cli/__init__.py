"""The command line. `main` is the entry point of `euterpe` and of `python -m euterpe`."""

from euterpe.cli.app import main

__all__ = ["main"]
