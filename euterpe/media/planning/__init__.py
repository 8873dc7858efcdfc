"""Decide how outputs are made from a source. A plan is frozen data, and planning does no I/O."""
