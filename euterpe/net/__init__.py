"""Guarded egress: the only way to send a request to an address that a requester chose."""
