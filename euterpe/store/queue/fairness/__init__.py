"""Scheduling of rows: start-time fair queueing, caps on running jobs, groups, round robin over requesters."""
