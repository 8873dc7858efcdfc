"""Packaging: write the playlists and the manifest that present CMAF segments as HLS and DASH."""
