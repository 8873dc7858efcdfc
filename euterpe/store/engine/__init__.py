"""Database engines (SQLite, libSQL, Postgres): connections, transactions, wake-ups, ids, migrations."""
