"""Jobs with credentials, and what can become of the key that those are under."""

from typing import Any

import sqlalchemy as sa

from euterpe.domain.spec import parse_spec
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs
from tests.store.jobs import SPEC

CREDENTIALS = {
    "type": "s3",
    "access_key_id": "AKIA",
    "secret_access_key": "secret",
    "region": "eu-1",
    "endpoint": "http://127.0.0.1:1",  # nobody has allowed it: nothing is ever called
}


def submit(store: Store, **fields: Any) -> str:
    spec = parse_spec({**SPEC, "credentials": CREDENTIALS, **fields})
    return store.submit(spec, "r1").result(timeout=60).job_id


def seal_otherwise(store: Store, job_id: str, **columns: Any) -> None:
    """As if the credentials had come in elsewhere: under a key that is not here, or in a later format."""
    values = {f"storage_creds_{name}": value for name, value in columns.items()}
    with store.database.transaction() as connection:
        connection.execute(sa.update(inbox_jobs).where(inbox_jobs.c.job_id == job_id).values(values))
