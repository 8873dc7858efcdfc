"""Credentials and webhook secrets in the database: sealed, bound to their row, rotated (contract §10)."""

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.crypto.envelope import rewrap
from euterpe.crypto.errors import CannotDecrypt, KeyProviderUnavailable, UnknownKek
from euterpe.crypto.keyfile import KeySet
from euterpe.domain.canonical import join_secrets
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import JobError
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import JobStatus
from euterpe.store.errors import Conflict, NotFound
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.secrets.rewrap import Rewrap
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, metadata, webhook_secrets
from tests.clock import SettableClock
from tests.key_providers import CheckedKeyRing, WatchedKeyProvider
from tests.store.attempts import fail_job, release_job
from tests.store.jobs import SPEC, advance, claim_one, enqueue

CANARY = "canary-5f2c7e"
SEALED = parse_spec(
    {
        **SPEC,
        "credentials": {
            "type": "s3",
            "access_key_id": f"{CANARY}-id",
            "secret_access_key": f"{CANARY}-secret",
            "region": "eu-1",
        },
    }
)
REFUSED = JobError(ErrorCode.SOURCE_NOT_MEDIA, "not a media file", "fetching")
HOPELESS = replace(REFUSED, retry_override=RetryClass.UNRECOVERABLE)


def submit(store: Store, **changes: Any) -> str:
    return store.submit(SEALED.model_copy(update=changes), "r1").result(timeout=60).job_id


def stored(store: Store, job_id: str) -> Any:
    with store.database.snapshot() as connection:
        return connection.execute(sa.select(inbox_jobs).where(inbox_jobs.c.job_id == job_id)).one()


def overwrite(store: Store, table: sa.Table, key: str, **values: Any) -> None:
    (column,) = table.primary_key.columns
    with store.database.transaction() as connection:
        connection.execute(sa.update(table).where(column == key).values(values))


def claim(store: Store, job_id: str) -> ClaimedJob:
    return next(job for job in store.inbox.claim("w1", 100) if job.job_id == job_id)


@pytest.fixture
def job(store: Store) -> ClaimedJob:
    submit(store)
    return claim_one(store)


def test_only_the_owner_of_the_job_gets_the_plaintext(store: Store, job: ClaimedJob) -> None:
    secret, version = store.credentials.open(job)
    assert version == 1
    assert join_secrets(dict(job.spec), secret) == SEALED
    assert release_job(store, job)
    with pytest.raises(Conflict, match="not owned"):
        store.credentials.open(job)


def test_a_job_without_credentials_has_none_to_open(store: Store) -> None:
    store.submit(parse_spec(SPEC), "r1").result(timeout=60)
    assert store.credentials.open(claim_one(store)) == (None, 1)


def test_plaintext_nowhere_in_any_table(store: Store) -> None:
    """The test searches every cell of every table after an attempt, a refresh and a rotation."""
    made = store.requesters.create("studio")
    job_id = store.submit(SEALED, made.requester_id, idempotency_key="k").result(timeout=60).job_id
    first = claim_one(store)
    store.credentials.replace(job_id, made.requester_id, f"{CANARY}-new".encode())
    fail_job(store, first, REFUSED)
    secret = store.requesters.rotate_secret(made.requester_id, old_valid_ms=1_000)
    key = store.requesters.rotate_key(made.requester_id, old_valid_ms=1_000)
    hidden = (CANARY, made.webhook_secret, made.api_key[17:], secret, key[17:])
    with store.database.snapshot() as connection:
        cells = [
            bytes(cell)
            if isinstance(cell, memoryview)
            else cell
            if isinstance(cell, bytes)
            else str(cell).encode()
            for table in metadata.sorted_tables
            for row in connection.execute(sa.select(table))
            for cell in row
        ]
    assert cells
    for canary in hidden:
        assert not [cell for cell in cells if canary.encode() in cell], "plaintext-nowhere"


@pytest.mark.parametrize("column", ["storage_creds_encrypted", "storage_creds_dek_wrapped"])
def test_a_flipped_bit_anywhere_is_rejected(store: Store, job: ClaimedJob, column: str) -> None:
    whole = bytes(getattr(stored(store, job.job_id), column))
    positions = range(0, len(whole), 7)
    for position in [*positions, len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        overwrite(store, inbox_jobs, job.job_id, **{column: bytes(damaged)})
        with pytest.raises(CannotDecrypt):
            store.credentials.open(job)
    overwrite(store, inbox_jobs, job.job_id, **{column: whole})
    assert store.credentials.open(job)[0] is not None


def test_secrets_cannot_be_moved_to_another_row_requester_or_version(store: Store, job: ClaimedJob) -> None:
    mine = stored(store, job.job_id)
    submit(store)
    other = claim_one(store)
    moved = ("storage_creds_encrypted", "storage_creds_dek_wrapped")
    overwrite(store, inbox_jobs, other.job_id, **{name: getattr(mine, name) for name in moved})
    with pytest.raises(CannotDecrypt):
        store.credentials.open(other)
    for column, value in (
        ("requester_id", "r2"),
        ("credential_version", 2),
        ("storage_creds_kek_id", "k0"),
        ("storage_creds_encrypted", stored(store, other.job_id).storage_creds_dek_wrapped),
    ):
        overwrite(store, inbox_jobs, job.job_id, **{column: value})
        with pytest.raises(CannotDecrypt):
            store.credentials.open(job)
        overwrite(store, inbox_jobs, job.job_id, **{column: getattr(mine, column)})


def test_a_webhook_secret_is_bound_to_its_row_too(store: Store) -> None:
    ids = [store.requesters.create(name).requester_id for name in ("a", "b")]
    with store.database.snapshot() as connection:
        rows = connection.execute(sa.select(webhook_secrets)).all()
    by_requester = {row.requester_id: row for row in rows}
    first, second = (by_requester[requester_id] for requester_id in ids)
    for column in ("secret_encrypted", "secret_dek_wrapped"):
        overwrite(store, webhook_secrets, first.secret_id, **{column: getattr(second, column)})
        with pytest.raises(CannotDecrypt):
            store.requesters.webhook_secrets(ids[0])
        damaged = bytearray(getattr(first, column))
        damaged[-1] ^= 1
        overwrite(store, webhook_secrets, first.secret_id, **{column: bytes(damaged)})
        with pytest.raises(CannotDecrypt):
            store.requesters.webhook_secrets(ids[0])
        overwrite(store, webhook_secrets, first.secret_id, **{column: getattr(first, column)})
    overwrite(store, webhook_secrets, first.secret_id, requester_id=ids[1])
    with pytest.raises(CannotDecrypt):
        store.requesters.webhook_secrets(ids[1])


def test_new_credentials_get_the_next_version(store: Store, job: ClaimedJob) -> None:
    assert store.credentials.replace(job.job_id, "r1", b"second") == 2
    assert store.credentials.replace(job.job_id, "r1", b"third") == 3
    assert store.credentials.open(job) == (b"third", 3)
    with pytest.raises(NotFound):
        store.credentials.replace(job.job_id, "r2", b"not yours")
    advance(store, job, until=JobStatus.SUCCEEDED)
    with pytest.raises(Conflict, match="succeeded"):
        store.credentials.replace(job.job_id, "r1", b"too late")


def test_refreshes_have_a_budget_of_their_own(store: Store, job: ClaimedJob) -> None:
    assert [store.credentials.begin_refresh(job, 2) for _ in range(3)] == [True, True, False]
    row = stored(store, job.job_id)
    assert (row.refresh_count, row.attempt_count) == (2, 1)
    release_job(store, job)
    with pytest.raises(Conflict):
        store.credentials.begin_refresh(job, 9)


@pytest.mark.parametrize("end", [JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.DEAD_LETTER])
def test_a_job_that_is_over_forgets_its_credentials(store: Store, job: ClaimedJob, end: JobStatus) -> None:
    if end is JobStatus.SUCCEEDED:
        advance(store, job, until=end)
    else:
        fail_job(store, job, REFUSED if end is JobStatus.FAILED else HOPELESS)
    row = stored(store, job.job_id)
    assert row.status == end
    sealed = (row.storage_creds_encrypted, row.storage_creds_dek_wrapped, row.storage_creds_kek_id)
    may_run_again = end is JobStatus.FAILED
    assert all((column is not None) is may_run_again for column in sealed)


class Rotated:
    """A store with secrets that k1 wraps, and a key ring whose active key is k2."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.requester = store.requesters.create("studio")
        self.job_ids = [submit(store) for _ in range(25)]
        keys = {"k1": b"1" * 32, "k2": b"2" * 32}
        self.ring = CheckedKeyRing(KeySet(where="the tests", active="k2", keys=keys))
        self.rewrap = Rewrap(store.database, self.ring)


@pytest.fixture
def rotated(store: Store) -> Rotated:
    return Rotated(store)


def test_a_rewrap_moves_every_secret_and_touches_no_ciphertext(rotated: Rotated, url: str) -> None:
    before = [bytes(stored(rotated.store, job_id).storage_creds_encrypted) for job_id in rotated.job_ids]
    assert rotated.rewrap.in_use() == {"k1": 26}
    assert [progress.moved for progress in rotated.rewrap.run(batch=10)] == [10, 20, 25, 26]
    assert rotated.rewrap.in_use() == {"k2": 26}
    after = [bytes(stored(rotated.store, job_id).storage_creds_encrypted) for job_id in rotated.job_ids]
    assert after == before
    only_new = CheckedKeyRing(KeySet(where="the tests", active="k2", keys={"k2": b"2" * 32}))
    rotated.store.close()
    with Store(url, only_new) as later:
        assert later.credentials.open(claim_one(later))[0] is not None
        assert later.requesters.webhook_secrets(rotated.requester.requester_id)


def test_a_rewrap_that_was_killed_half_way_is_resumed(rotated: Rotated) -> None:
    run = rotated.rewrap.run(batch=10)
    assert next(run).moved == 10
    del run  # this is like a kill, because each batch is a transaction, and the end of a run does no cleanup
    assert rotated.rewrap.in_use() == {"k1": 16, "k2": 10}
    assert list(Rewrap(rotated.store.database, rotated.ring).run(batch=10))[-1].moved == 16
    assert list(Rewrap(rotated.store.database, rotated.ring).run()) == []


def test_a_refresh_during_a_rewrap_wins(rotated: Rotated, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewrap does not overwrite credentials that have changed since the rewrap read them."""
    changed = rotated.job_ids[3]

    def refresh_meanwhile(sealed: Any, context: Any, ring: Any) -> Any:
        if context.fields.get("job_id") == changed:
            assert rotated.store.credentials.replace(changed, "r1", b"newer") == 2
        return rewrap(sealed, context, ring)

    monkeypatch.setattr("euterpe.store.secrets.rewrap.rewrap", refresh_meanwhile)
    assert list(rotated.rewrap.run())[-1].moved == 25
    row = stored(rotated.store, changed)
    assert (row.credential_version, row.storage_creds_kek_id) == (2, "k1")
    assert rotated.store.credentials.open(claim(rotated.store, changed)) == (b"newer", 2)


def test_one_damaged_secret_does_not_hold_up_the_others(rotated: Rotated) -> None:
    damaged = rotated.job_ids[0]
    overwrite(rotated.store, inbox_jobs, damaged, storage_creds_dek_wrapped=b"x" * 60)
    progress = list(rotated.rewrap.run(batch=10))[-1]
    assert progress.moved == 25
    assert [line.partition(":")[0] for line in progress.broken] == [f"inbox_jobs {damaged}"]
    assert rotated.rewrap.in_use() == {"k1": 1, "k2": 25}


def test_an_outage_of_the_keys_ends_a_rewrap_and_breaks_nothing(rotated: Rotated) -> None:
    provider = WatchedKeyProvider(rotated.ring)
    watched = Rewrap(rotated.store.database, provider)
    run = watched.run(batch=10)
    assert next(run).moved == 10
    provider.is_away = True
    with pytest.raises(KeyProviderUnavailable):
        next(run)
    with pytest.raises(KeyProviderUnavailable):
        watched.unreadable()
    provider.is_away = False
    last = list(watched.run(batch=10))[-1]
    assert (last.moved, last.broken) == (16, ())
    assert watched.unreadable() == []


def test_a_kek_that_is_not_in_the_ring_is_named(store: Store, job: ClaimedJob) -> None:
    overwrite(store, inbox_jobs, job.job_id, storage_creds_kek_id="gone")
    with pytest.raises(UnknownKek, match="gone"):
        store.credentials.open(job)


def test_a_worker_whose_claim_is_over_stores_no_credentials(store: Store, clock: SettableClock) -> None:
    """fenced-writes: a late refresh answer must not overwrite the credentials of the job's new owner."""
    enqueue(store)
    slept = claim_one(store, lease_ms=1_000)
    clock.advance(1_001)
    store.inbox.sweep()
    clock.advance(60_000)
    owner = claim_one(store, "w2")
    assert store.credentials.replace(owner.job_id, "r1", b"new", claim=owner) == 2
    with pytest.raises(Conflict):
        store.credentials.replace(slept.job_id, "r1", b"old", claim=slept)
    assert store.credentials.open(owner) == (b"new", 2)


def test_a_retry_may_refresh_anew(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    assert store.credentials.begin_refresh(job, 1)
    assert not store.credentials.begin_refresh(job, 1)
    fail_job(store, job, JobError(ErrorCode.SOURCE_FORBIDDEN, "…", "claimed", RetryClass.PERMANENT))
    store.control.retry(job_id)
    assert store.credentials.begin_refresh(claim_one(store, "w2"), 1)


def test_what_can_never_run_again_takes_no_new_credentials(store: Store) -> None:
    job_id = submit(store, max_attempts=1)
    job = claim_one(store)
    store.control.cancel(job_id)
    fail_job(store, job, REFUSED)
    row = stored(store, job_id)
    assert (row.status, row.storage_creds_encrypted) == (JobStatus.FAILED, None)
    with pytest.raises(Conflict, match="failed"):
        store.credentials.replace(job_id, "r1", b"too late")
    assert stored(store, job_id).storage_creds_encrypted is None
