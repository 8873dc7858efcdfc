"""A write that changes nothing that matters: it fails when writes fail, and reads alone would not tell."""

import sqlalchemy as sa

from euterpe.store.database import Database
from euterpe.store.errors import StoreError, StoreUnavailable
from euterpe.store.tables import write_probe

_ROW = 1


def check_writes(database: Database) -> None:
    """Write and commit one row; raise StoreUnavailable if the disk is full, or the database read-only."""
    insert = database.insert(write_probe).values(probe_id=_ROW, written_at=database.now)
    replaced = insert.on_conflict_do_update(
        index_elements=[write_probe.c.probe_id], set_={"written_at": sa.literal_column("excluded.written_at")}
    )
    try:
        with database.transaction() as connection:
            connection.execute(replaced)
    except StoreUnavailable:
        raise
    except StoreError as error:
        raise StoreUnavailable(f"the database takes no writes: {error}") from None
