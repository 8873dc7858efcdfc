"""Batch analytics over the history: a Spark source, a Parquet lake, facts, marts and a report."""
