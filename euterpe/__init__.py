"""Euterpe: transcoding on object storage and a SQL database, without a broker."""

__version__ = "0.1.0"
