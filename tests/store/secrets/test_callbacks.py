"""Query strings of webhook and refresh URLs: sealed in the database, opened to call the URL."""

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.crypto.errors import CannotDecrypt, UnknownKek
from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.rows import columns
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import JobStatus
from euterpe.store.queue.outbox import ClaimedEvent
from euterpe.store.secrets.callbacks import Callbacks
from euterpe.store.secrets.rewrap import Rewrap
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, metadata
from tests.store.jobs import SPEC, advance, claim_one, enqueue

CANARY = "canary-5f2c7e"
HOOK, CREDS = f"https://requester.example/hook?t={CANARY}", f"https://requester.example/creds?t={CANARY}-2"
DOCUMENT = {**SPEC, "status_webhook_url": HOOK, "refresh_url": CREDS}
OLD_ROW = {**SPEC, "status_webhook_url": HOOK, "refresh_url": CREDS}


def submit(store: Store, document: dict[str, Any] = DOCUMENT) -> str:
    return store.submit(parse_spec(document), "r1").result(timeout=60).job_id


def url_of(store: Store, event: ClaimedEvent, callbacks: Callbacks | None = None) -> str:
    opener = callbacks or store.callbacks
    return opener.webhook_url(event.url, event.job_id, event.requester_id, event.sealed_callbacks)


def one_event(store: Store) -> ClaimedEvent:
    (event,) = store.outbox.claim("d1", 1)
    return event


def overwrite(store: Store, job_id: str, **values: Any) -> None:
    with store.database.transaction() as connection:
        connection.execute(sa.update(inbox_jobs).where(inbox_jobs.c.job_id == job_id).values(values))


def cells(store: Store) -> list[bytes]:
    with store.database.snapshot() as connection:
        return [
            bytes(cell) if isinstance(cell, bytes | memoryview) else str(cell).encode()
            for table in metadata.sorted_tables
            for row in connection.execute(sa.select(table))
            for cell in row
        ]


def test_no_table_holds_the_query_of_a_callback_url(store: Store) -> None:
    job_id = submit(store)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    assert not [cell for cell in cells(store) if CANARY.encode() in cell]
    assert store.jobs.get(job_id).spec["status_webhook_url"] == "https://requester.example/hook?"
    assert not [name for name in columns(store.jobs.get(job_id)) if name.startswith("callbacks_")]


def test_a_claimed_event_leads_to_the_whole_url_also_after_the_job_is_over(store: Store) -> None:
    submit(store)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    events = store.outbox.claim("d1", 25)
    assert {url_of(store, event) for event in events} == {HOOK}
    assert len(events) == 5
    assert CANARY not in repr(events)


def test_the_owner_of_a_job_gets_the_whole_refresh_url(store: Store) -> None:
    submit(store)
    queries = store.callbacks.for_job(claim_one(store))
    assert queries is not None
    assert f"{CANARY}-2" in queries.decode()


def test_a_job_without_queries_has_nothing_to_open(store: Store) -> None:
    submit(store, {**SPEC, "refresh_url": "https://requester.example/creds"})
    assert store.callbacks.for_job(claim_one(store)) is None
    event = one_event(store)
    assert (event.sealed_callbacks, url_of(store, event)) == (None, SPEC["status_webhook_url"])


def test_a_row_from_before_the_queries_were_sealed_is_delivered_and_shown_masked(store: Store) -> None:
    (job_id,) = enqueue(store, spec=OLD_ROW)
    job = claim_one(store)
    assert job.spec["refresh_url"] == CREDS
    assert store.callbacks.for_job(job) is None
    assert url_of(store, one_event(store)) == HOOK
    assert CANARY not in str(store.jobs.get(job_id))


def test_a_sealed_query_opens_for_its_own_job_only(store: Store) -> None:
    first, second = submit(store), submit(store)
    with store.database.snapshot() as connection:
        wanted = sa.select(inbox_jobs).where(inbox_jobs.c.job_id == first)
        mine = connection.execute(wanted).mappings().one()
    moved = ("callbacks_encrypted", "callbacks_dek_wrapped")
    overwrite(store, second, **{name: mine[name] for name in moved})
    store.inbox.claim("w1", 2)
    events = {event.job_id: event for event in store.outbox.claim("d1", 2)}
    assert url_of(store, events[first]) == HOOK
    with pytest.raises(CannotDecrypt):
        url_of(store, events[second])
    with pytest.raises(CannotDecrypt):
        url_of(store, replace(events[first], requester_id="r2"))


def test_credentials_and_callbacks_are_not_exchanged(store: Store) -> None:
    credentials = {"type": "s3", "access_key_id": "AKIA", "secret_access_key": "secret", "region": "eu-1"}
    job_id = submit(store, {**DOCUMENT, "credentials": credentials})
    with store.database.snapshot() as connection:
        row = connection.execute(sa.select(inbox_jobs).where(inbox_jobs.c.job_id == job_id)).mappings().one()
    overwrite(
        store,
        job_id,
        callbacks_encrypted=row["storage_creds_encrypted"],
        callbacks_dek_wrapped=row["storage_creds_dek_wrapped"],
    )
    claim_one(store)
    with pytest.raises(CannotDecrypt):
        url_of(store, one_event(store))


def test_a_rewrap_moves_the_queries_of_finished_jobs_too(store: Store) -> None:
    submit(store)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    keys = {"k1": b"1" * 32, "k2": b"2" * 32}
    rewrap = Rewrap(store.database, LocalKeyRing(KeySet(where="the tests", active="k2", keys=keys)))
    assert rewrap.in_use() == {"k1": 1}
    assert [progress.moved for progress in rewrap.run()] == [1]
    assert (rewrap.in_use(), rewrap.unreadable()) == ({"k2": 1}, [])
    event = one_event(store)
    only_new = LocalKeyRing(KeySet(where="the tests", active="k2", keys={"k2": b"2" * 32}))
    assert url_of(store, event, Callbacks(store.database, only_new)) == HOOK
    with pytest.raises(UnknownKek, match="k2"):
        url_of(store, event)


def test_opened_queries_are_cached_up_to_a_bound(store: Store) -> None:
    for _ in range(3):
        submit(store)
    store.inbox.claim("w1", 3)
    events = store.outbox.claim("d1", 3)
    unwrapped: list[str] = []

    class Counting(LocalKeyRing):
        def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
            unwrapped.append(kek_id)
            return super().unwrap(kek_id, wrapped, aad)

    counting = Counting(KeySet(where="the tests", active="k1", keys={"k1": b"1" * 32}))
    callbacks = Callbacks(store.database, counting, remembered=2)
    for event in (events[0], events[0], events[1], events[0], events[2], events[1]):
        assert url_of(store, event, callbacks) == HOOK
    assert len(unwrapped) == 4
