"""Decide how outputs are made from a source, as frozen data. No I/O."""
