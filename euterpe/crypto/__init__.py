"""Envelope encryption, the key ring, request signing and API keys."""
