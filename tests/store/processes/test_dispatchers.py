"""Many dispatchers on one outbox: the ownership protocol of the inbox, over events."""
