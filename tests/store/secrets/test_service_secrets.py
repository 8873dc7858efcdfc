"""Keys of lease tokens: made once, sealed, rotated, and moved by a rewrap."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from euterpe.crypto.errors import CannotDecrypt
from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.store.checks import WEEK_MS
from euterpe.store.secrets.rewrap import Rewrap
from euterpe.store.secrets.service_secrets import ServiceSecrets
from euterpe.store.store import Store
from euterpe.store.tables import metadata, service_secrets
from tests.clock import SettableClock


def test_the_first_use_makes_a_key_and_later_uses_return_it(store: Store, ring: LocalKeyRing) -> None:
    (first,) = store.service_secrets.lease_keys()
    assert len(first.key) == 32
    assert store.service_secrets.lease_keys() == [first]
    assert ServiceSecrets(store.database, ring).lease_keys() == [first], "other processes get the same key"
    assert first.key.hex() not in repr(first)


def test_processes_that_start_at_once_agree_on_one_key(store: Store, ring: LocalKeyRing) -> None:
    processes = [ServiceSecrets(store.database, ring) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(ServiceSecrets.lease_keys, processes))
    assert found == [found[0]] * 6
    assert len(found[0]) == 1


def test_a_rotation_keeps_the_old_key_for_seven_days(store: Store, clock: SettableClock) -> None:
    (old,) = store.service_secrets.lease_keys()
    store.service_secrets.rotate_lease_key()
    new, kept = store.service_secrets.lease_keys()
    assert kept == old
    assert new.key_id != old.key_id
    assert new.key != old.key
    clock.advance(WEEK_MS - 1)
    assert store.service_secrets.lease_keys() == [new, old]
    clock.advance(1)
    assert store.service_secrets.lease_keys() == [new]


def test_each_rotation_adds_a_key_and_deletes_expired_keys(store: Store, clock: SettableClock) -> None:
    first = store.service_secrets.lease_keys()
    for number in range(11):
        store.service_secrets.rotate_lease_key(old_valid_ms=1_000)
        assert len(store.service_secrets.lease_keys()) == 2, number
        clock.advance(1_000)
    (last,) = store.service_secrets.lease_keys()
    assert last.key_id == "lease-12"
    assert last not in first
    with store.database.snapshot() as connection:
        rows = connection.execute(sa.select(sa.func.count()).select_from(service_secrets)).scalar_one()
    assert rows == 2


def test_a_key_is_in_no_cell_of_any_table(store: Store) -> None:
    """plaintext-nowhere"""
    (made,) = store.service_secrets.lease_keys()
    with store.database.snapshot() as connection:
        cells = [
            bytes(cell) if isinstance(cell, bytes | memoryview) else str(cell).encode()
            for table in metadata.sorted_tables
            for row in connection.execute(sa.select(table))
            for cell in row
        ]
    assert cells
    assert not [cell for cell in cells if made.key in cell or made.key.hex().encode() in cell]


def test_a_key_that_was_moved_to_another_row_does_not_open(store: Store) -> None:
    store.service_secrets.lease_keys()
    with store.database.transaction() as connection:
        connection.execute(sa.update(service_secrets).values(secret_id="lease-7"))
    with pytest.raises(CannotDecrypt):
        store.service_secrets.lease_keys()


def test_a_rewrap_moves_the_keys_so_that_the_old_kek_can_be_retired(store: Store) -> None:
    store.service_secrets.lease_keys()
    store.service_secrets.rotate_lease_key()
    before = store.service_secrets.lease_keys()
    both = {"k1": b"1" * 32, "k2": b"2" * 32}
    rewrap = Rewrap(store.database, LocalKeyRing(KeySet(where="the tests", active="k2", keys=both)))
    assert rewrap.in_use() == {"k1": 2}
    assert list(rewrap.run())[-1].moved == 2
    assert (rewrap.in_use(), rewrap.unreadable()) == ({"k2": 2}, [])
    only_new = LocalKeyRing(KeySet(where="the tests", active="k2", keys={"k2": b"2" * 32}))
    assert ServiceSecrets(store.database, only_new).lease_keys() == before
