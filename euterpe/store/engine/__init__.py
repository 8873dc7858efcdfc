"""What differs between SQLite, libSQL and Postgres: connections, transactions, wake-ups, ids, migrations."""
