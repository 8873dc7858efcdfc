"""`euterpe demo`: the whole product in one folder, from a sample clip to a page that plays the outputs."""

from euterpe.cli.demo.command import register

__all__ = ["register"]
