"""Keys of HLS outputs: sealed in the database, opened for the owner of the job, separate from credentials."""

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.crypto.errors import CannotDecrypt
from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.replacement import new_secret
from euterpe.domain.rows import columns
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import JobStatus
from euterpe.store.errors import Conflict
from euterpe.store.secrets.hls_keys import HlsKeys
from euterpe.store.secrets.rewrap import Rewrap
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, metadata
from tests.store.jobs import SPEC, advance, claim_one

KEY = bytes.fromhex("c0ffee11c0ffee22c0ffee33c0ffee44")
S3 = {"type": "s3", "access_key_id": "AKIA", "secret_access_key": "secret", "region": "eu-1"}
HLS = {
    "name": "hls",
    "type": "hls",
    "video": {"ladder": "auto"},
    "encryption": {"key_url": "https://keys.example/1", "key": KEY.hex()},
}
DOCUMENT: dict[str, Any] = {
    **SPEC,
    "profile": None,
    "outputs": [HLS],
    "credentials": {"source": S3, "output": S3},
}


def submit(store: Store, document: dict[str, Any] = DOCUMENT) -> str:
    return store.submit(parse_spec(document), "r1").result(timeout=60).job_id


def row_of(store: Store, job_id: str) -> Any:
    with store.database.snapshot() as connection:
        return connection.execute(sa.select(inbox_jobs).where(inbox_jobs.c.job_id == job_id)).one()


def overwrite(store: Store, job_id: str, **values: Any) -> None:
    with store.database.transaction() as connection:
        connection.execute(sa.update(inbox_jobs).where(inbox_jobs.c.job_id == job_id).values(values))


def test_only_the_owner_of_the_job_gets_the_key(store: Store) -> None:
    submit(store)
    job = claim_one(store)
    assert store.hls_keys.open(job) == {"hls": KEY}
    with pytest.raises(Conflict):
        store.hls_keys.open(replace(job, claim_version=job.claim_version - 1))


def test_outputs_may_have_different_keys(store: Store) -> None:
    lock = {"key_url": "https://keys.example/2", "key": "AB" * 16}
    clear = {**HLS, "name": "clear", "encryption": None}
    submit(store, {**DOCUMENT, "outputs": [HLS, {**HLS, "name": "other", "encryption": lock}, clear]})
    assert store.hls_keys.open(claim_one(store)) == {"hls": KEY, "other": b"\xab" * 16}


def test_an_encrypted_output_without_a_stored_key_is_an_error(store: Store) -> None:
    submit(store)
    job = claim_one(store)
    renamed = {**job.spec, "outputs": [{**job.spec["outputs"][0], "name": "other"}]}
    with pytest.raises(CannotDecrypt):
        store.hls_keys.open(replace(job, spec=renamed))
    overwrite(store, job.job_id, hls_key_encrypted=None)
    with pytest.raises(CannotDecrypt):
        store.hls_keys.open(job)


def test_no_table_and_no_document_holds_the_key(store: Store) -> None:
    job_id = submit(store)
    advance(store, claim_one(store), until=JobStatus.UPLOADING)
    with store.database.snapshot() as connection:
        cells = [
            bytes(cell) if isinstance(cell, bytes | memoryview) else str(cell).encode()
            for table in metadata.sorted_tables
            for row in connection.execute(sa.select(table))
            for cell in row
        ]
    assert row_of(store, job_id).hls_key_encrypted is not None
    assert not [cell for cell in cells if KEY in cell or KEY.hex().encode() in cell]
    assert not [name for name in columns(store.jobs.get(job_id)) if name.startswith("hls_key")]


def test_new_credentials_leave_the_key_alone(store: Store) -> None:
    job_id = submit(store)
    job = claim_one(store)
    given = {"credentials": {**S3, "secret_access_key": "new"}}
    store.credentials.replace(job_id, "r1", new_secret(dict(job.spec), given))
    assert store.hls_keys.open(job) == {"hls": KEY}
    assert b"new" in (store.credentials.open(job)[0] or b"")


def test_the_key_is_forgotten_at_the_end(store: Store) -> None:
    job_id = submit(store)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    row = row_of(store, job_id)
    assert {
        name: value for name, value in row._mapping.items() if name.startswith("hls_key")
    } == dict.fromkeys(
        ("hls_key_encrypted", "hls_key_dek_wrapped", "hls_key_kek_id", "hls_key_encryption_version")
    )


def test_a_job_without_encryption_has_no_key(store: Store) -> None:
    submit(store, {**SPEC})
    assert store.hls_keys.open(claim_one(store)) == {}


def test_a_key_opens_for_its_own_job_only(store: Store) -> None:
    first, second = submit(store), submit(store)
    mine = row_of(store, first)
    overwrite(
        store, second, hls_key_encrypted=mine.hls_key_encrypted, hls_key_dek_wrapped=mine.hls_key_dek_wrapped
    )
    jobs = {job.job_id: job for job in store.inbox.claim("w1", 2)}
    assert store.hls_keys.open(jobs[first]) == {"hls": KEY}
    with pytest.raises(CannotDecrypt):
        store.hls_keys.open(jobs[second])


def test_key_and_credentials_are_not_exchanged(store: Store) -> None:
    job_id = submit(store)
    mine = row_of(store, job_id)
    overwrite(
        store,
        job_id,
        hls_key_encrypted=mine.storage_creds_encrypted,
        hls_key_dek_wrapped=mine.storage_creds_dek_wrapped,
    )
    with pytest.raises(CannotDecrypt):
        store.hls_keys.open(claim_one(store))


def test_a_rewrap_moves_keys_too(store: Store) -> None:
    submit(store)
    keys = {"k1": b"1" * 32, "k2": b"2" * 32}
    rewrap = Rewrap(store.database, LocalKeyRing(KeySet(where="the tests", active="k2", keys=keys)))
    assert rewrap.in_use() == {"k1": 2}
    assert [progress.moved for progress in rewrap.run()] == [1, 2]
    assert (rewrap.in_use(), rewrap.unreadable()) == ({"k2": 2}, [])
    only_new = LocalKeyRing(KeySet(where="the tests", active="k2", keys={"k2": b"2" * 32}))
    assert HlsKeys(store.database, only_new).open(claim_one(store)) == {"hls": KEY}
