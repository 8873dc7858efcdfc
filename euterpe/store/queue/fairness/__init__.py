"""Decide which row comes next: fair shares, caps on running jobs, groups, turns between requesters."""
