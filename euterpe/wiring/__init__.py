"""Build the database, the key ring and the running services from the settings."""
