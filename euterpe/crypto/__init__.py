"""Envelope encryption, key providers, request signing and API keys."""
