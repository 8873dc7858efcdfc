"""The Spark source `euterpe`: the history of a store as DataFrames and streams."""

from euterpe.analytics.source.datasource import EuterpeSource, open_history, read_table, register

__all__ = ["EuterpeSource", "open_history", "read_table", "register"]
