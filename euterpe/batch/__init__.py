"""Bulk submission: validate a manifest of jobs with Spark, then submit each row exactly once."""
