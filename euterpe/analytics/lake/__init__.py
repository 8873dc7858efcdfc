"""The lake: Parquet files by table and day, and a commit log that lists the lake's current files."""

from euterpe.analytics.lake.commits import Commit, DataFile
from euterpe.analytics.lake.lake import Append, Lake

__all__ = ["Append", "Commit", "DataFile", "Lake"]
