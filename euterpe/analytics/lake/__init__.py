"""The lake: a folder of Parquet, by table and day, and a list of the files that count."""

from euterpe.analytics.lake.commits import Commit, DataFile
from euterpe.analytics.lake.lake import Append, Lake

__all__ = ["Append", "Commit", "DataFile", "Lake"]
