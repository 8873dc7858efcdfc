"""Store credentials, callback queries, API keys and webhook secrets; rotate the keys that seal them."""
