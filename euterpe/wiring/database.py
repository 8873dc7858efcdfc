"""From settings to what they describe: the key ring, the database, the store."""

import gc
import os
from functools import cached_property
from pathlib import Path

from euterpe.crypto import keyfile
from euterpe.crypto.errors import KeyRingError
from euterpe.crypto.file_keyring import FileKeyRing
from euterpe.crypto.keyring import KeyRing, LocalKeyRing, load_value
from euterpe.domain.retry import Backoff, DeliverySchedule
from euterpe.settings import Settings
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import sqlite_file
from euterpe.store.errors import SchemaMismatch, StoreError
from euterpe.store.store import Store


def collect_garbage_less_often() -> None:
    """For a program that serves, once it has started. To look for cycles after every 700 objects took a
    tenth of a busy worker's time, and there are next to none: what was imported stays, and batches of rows
    hold no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


class LazyRing:
    """Loaded when a key is needed: jobs can be seen and queues stopped while the keys are out of reach."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def _ring(self) -> KeyRing:
        return key_ring(self._settings)

    @property
    def active_id(self) -> str:
        return self._ring.active_id

    def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes:
        return self._ring.wrap(kek_id, dek, aad)

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        return self._ring.unwrap(kek_id, wrapped, aad)


def open_store(settings: Settings, ring: KeyRing | None = None) -> Store:
    """With the key ring that the settings name, unless another one is given."""
    refuse_missing(settings)
    _refuse_closed(settings)
    return Store(
        settings.database_url.get_secret_value(),
        key_ring(settings) if ring is None else ring,
        backoff=backoff_of(settings),
        job_max_attempts=settings.job_max_attempts,
        outbox_max_attempts=settings.outbox_max_attempts,
        idempotency_ttl_ms=settings.idempotency_ttl_ms,
    )


def backoff_of(settings: Settings) -> Backoff:
    return Backoff(settings.backoff_base_ms, settings.backoff_cap_ms, settings.backoff_429_base_ms)


def delivery_schedule_of(settings: Settings) -> DeliverySchedule:
    return DeliverySchedule(settings.outbox_retry_delays, throttled_ms=settings.backoff_429_base_ms)


def open_database(settings: Settings) -> Database:
    """At whatever schema it is."""
    _refuse_closed(settings)
    return Database(settings.database_url.get_secret_value())


def database_file(settings: Settings) -> Path | None:
    return sqlite_file(settings.database_url.get_secret_value())


def refuse_missing(settings: Settings) -> None:
    """SQLite would make an empty database of every typo in a path."""
    path = database_file(settings)
    if path is not None and not path.exists():
        raise SchemaMismatch(f"there is no database {path}; run `euterpe migrate`")


def _refuse_closed(settings: Settings) -> None:
    """What SQLite says of it would do for a database that comes back by itself."""
    path = database_file(settings)
    places = () if path is None else (path.absolute().parent, path)
    closed = [place for place in places if place.exists() and not os.access(place, os.W_OK)]
    if closed:
        raise StoreError(f"{closed[0]} cannot be written to by this user; SQLite writes beside its file, too")


def key_ring(settings: Settings) -> LocalKeyRing | FileKeyRing:
    """Of EUTERPE_KEKS, else of `ring_file`. An SQLite database gets a ring when it is first used."""
    if settings.keks is not None:
        return load_value(settings.keks.get_secret_value())
    path = ring_file(settings)
    if settings.kek_file is None and not path.exists():
        _refuse_if_lost(settings, path)
        keyfile.create_file(path)
    return FileKeyRing(path)


def ring_file(settings: Settings) -> Path:
    """The file that the key ring is in, or will be: EUTERPE_KEK_FILE, else beside an SQLite database."""
    if settings.keks is not None:
        raise KeyRingError("EUTERPE_KEKS", "is in the environment and not in a file: change it there")
    if settings.kek_file is not None:
        return settings.kek_file
    database = database_file(settings)
    if database is None:
        raise KeyRingError(
            "EUTERPE_KEK_FILE",
            "is not set: name a file there (`euterpe keys add` creates it), or put the keys in EUTERPE_KEKS",
        )
    return database.with_name(f"{database.name}.keks.json")


def _refuse_if_lost(settings: Settings, path: Path) -> None:
    """A new ring would open nothing of what is there, and be in the way of the one that does."""
    with open_store(settings, LazyRing(settings)) as store:
        used = store.rewrap.in_use()
    if used:
        raise KeyRingError(
            path, f"is missing, and the database has secrets under {', '.join(sorted(used))}: put it back"
        )
