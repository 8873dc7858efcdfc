"""The guarded egress: the only door out to an address that a requester chose."""
