"""Build the database, the key provider and the running services from the settings."""
