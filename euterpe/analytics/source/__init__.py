"""The Spark source `euterpe`: the history of a store as DataFrames and streams."""

from euterpe.analytics.source.datasource import EuterpeSource, history_of, read_table, register

__all__ = ["EuterpeSource", "history_of", "read_table", "register"]
