"""`euterpe doctor`: check everything that an installation needs, and print how to fix failures."""

from euterpe.cli.doctor.command import register

__all__ = ["register"]
