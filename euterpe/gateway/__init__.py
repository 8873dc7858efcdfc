"""The Redis job gateway: an HTTP API for jobs that are stored only in Redis.

A bridge makes a SQL row of each job.
"""
