"""Packaging: the lists that make CMAF segments an HLS and a DASH presentation."""
