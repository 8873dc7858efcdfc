"""Count the rows of a database, to check that a benchmark leaves none behind."""

import sqlalchemy as sa

from euterpe.store.engine.database import Database
from euterpe.store.tables import metadata, schema_migrations


def rows_left(url: str) -> dict[str, int]:
    """Return the number of rows of each table that has rows, and of each table that a benchmark created."""
    database = Database(url)
    try:
        names = set(sa.inspect(database.engines.read).get_table_names())
        known = {table.name: table for table in metadata.sorted_tables if table is not schema_migrations}
        left = {
            name: 0 for name in names - known.keys() - {schema_migrations.name} if name.startswith("bench")
        }
        with database.snapshot() as connection:
            for name, table in known.items():
                if count := connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one():
                    left[name] = count
        return left
    finally:
        database.close()
