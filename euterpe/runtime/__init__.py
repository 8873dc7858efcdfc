"""Background loop, lease keeper, retry, jitter and install hint. There are no rules of the domain here."""
