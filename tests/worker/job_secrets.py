"""Helpers that submit jobs with credentials, and that change how the credentials are sealed."""

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
    "endpoint": "http://127.0.0.1:1",  # the policy does not allow this endpoint, so it is never called
}


def submit(store: Store, **fields: Any) -> str:
    spec = parse_spec({**SPEC, "credentials": CREDENTIALS, **fields})
    return store.submit(spec, "r1").result(timeout=60).job_id


def alter_seal(store: Store, job_id: str, **columns: Any) -> None:
    """Change columns of a job's sealed credentials, for example to an unknown key or a later format."""
    values = {f"storage_creds_{name}": value for name, value in columns.items()}
    with store.database.transaction() as connection:
        connection.execute(sa.update(inbox_jobs).where(inbox_jobs.c.job_id == job_id).values(values))
