"""Build the key provider, the database and the store from the settings."""

import os
from functools import cached_property
from pathlib import Path

from euterpe.crypto import keyfile
from euterpe.crypto.errors import KeyRingError
from euterpe.crypto.key_provider import JoinedKeyProviders, KeyProvider, self_test
from euterpe.crypto.local_key_ring import FileKeyRing, LocalKeyRing, load_value
from euterpe.crypto.vault_client import VaultTransit
from euterpe.crypto.vault_key_provider import VaultKeyProvider
from euterpe.domain.retry import Backoff, DeliverySchedule
from euterpe.settings import Settings
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import database_place, sqlite_file
from euterpe.store.engine.migrations import RUN_MIGRATE, require_file
from euterpe.store.engine.outage import OutageWatch
from euterpe.store.errors import StoreError
from euterpe.store.store import Store

_SWEEP_GRACE_MS = 30_000
# The hint for a program that shares the database of the service: a new database would have no requesters.
USE_THE_SERVICES = "set EUTERPE_DATABASE_URL to that of the service"


class LazyKeyProvider:
    """A key provider that loads the keys on first use.

    So commands that need no keys, such as showing a job or pausing a queue, also work where no keys are
    available.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def _provider(self) -> KeyProvider:
        return key_provider(self._settings)

    @property
    def active_id(self) -> str:
        return self._provider.active_id

    @property
    def ids(self) -> tuple[str, ...]:
        return self._provider.ids

    def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes:
        return self._provider.wrap(kek_id, dek, aad)

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        return self._provider.unwrap(kek_id, wrapped, aad)


def open_store(
    settings: Settings,
    keys: KeyProvider | None = None,
    *,
    sweep_grace_ms: int = 0,
    if_missing: str = RUN_MIGRATE,
) -> Store:
    """Open the store with `keys`, or with the key provider that the settings name.

    In the first `sweep_grace_ms`, the store does not sweep expired leases. After each outage of the database
    that lasts at least one heartbeat interval, the store does not sweep for `sweep_grace_of(settings)`.

    The key provider of the settings must pass its self-test, so that a program that cannot decrypt secrets
    does not start. Raise `StoreError` if the SQLite file is read-only, and `SchemaMismatch` with the hint
    `if_missing` if the file is missing.
    """
    require_database_file(settings, if_missing)
    _refuse_read_only(settings)
    return Store(
        settings.database_url.get_secret_value(),
        self_tested_key_provider(settings) if keys is None else keys,
        backoff=backoff_of(settings),
        job_max_attempts=settings.job_max_attempts,
        outbox_max_attempts=settings.outbox_max_attempts,
        idempotency_ttl_ms=settings.idempotency_ttl_ms,
        sweep_grace_ms=sweep_grace_ms,
        outage_grace_ms=sweep_grace_of(settings),
        outage=OutageWatch(least_s=settings.heartbeat_interval_ms / 1000),
    )


def sweep_grace_of(settings: Settings) -> int:
    """Return the time, in ms, in which each running worker can revive its leases after an outage."""
    return min(settings.lease_ttl_ms, _SWEEP_GRACE_MS)


def backoff_of(settings: Settings) -> Backoff:
    return Backoff(settings.backoff_base_ms, settings.backoff_cap_ms, settings.backoff_429_base_ms)


def delivery_schedule_of(settings: Settings) -> DeliverySchedule:
    return DeliverySchedule(settings.outbox_retry_delays, throttled_ms=settings.backoff_429_base_ms)


def open_database(settings: Settings) -> Database:
    """Open the database without checking its schema version."""
    _refuse_read_only(settings)
    return Database(settings.database_url.get_secret_value())


def database_file(settings: Settings) -> Path | None:
    """Return the path of the SQLite file, or None for another engine."""
    return sqlite_file(settings.database_url.get_secret_value())


def database_shown(settings: Settings) -> str:
    """Return the engine with its file or its server, without the password."""
    return database_place(settings.database_url.get_secret_value())


def require_database_file(settings: Settings, hint: str = RUN_MIGRATE) -> None:
    """Raise `SchemaMismatch` with a hint if the SQLite file is missing."""
    require_file(settings.database_url.get_secret_value(), hint)


def _refuse_read_only(settings: Settings) -> None:
    """Raise `StoreError` if the SQLite file or its folder is read-only.

    SQLite's own error would look like a temporary outage.
    """
    path = database_file(settings)
    places = () if path is None else (path.absolute().parent, path)
    denied = [place for place in places if place.exists() and not os.access(place, os.W_OK)]
    if denied:
        raise StoreError(f"{denied[0]} cannot be written to by this user; SQLite writes beside its file, too")


def key_provider(settings: Settings) -> KeyProvider:
    """Return the provider that EUTERPE_KEY_PROVIDER names.

    If a key ring and Vault are both configured, both unwrap data keys, so that secrets can be moved from one
    provider to the other.
    """
    if settings.vault_url is None or settings.vault_token_file is None:
        return _key_ring(settings)
    transit = VaultTransit(
        settings.vault_url,
        settings.vault_token_file,
        mount=settings.vault_mount,
        namespace=settings.vault_namespace,
        ca_file=settings.vault_ca_file,
    )
    vault = VaultKeyProvider(transit, settings.vault_key)
    if settings.key_provider == "local":
        return JoinedKeyProviders(_key_ring(settings), vault)
    return JoinedKeyProviders(vault, _key_ring(settings)) if _has_key_ring(settings) else vault


def self_tested_key_provider(settings: Settings) -> KeyProvider:
    """Return the key provider after its self-test. If the self-test fails, raise its error."""
    provider = key_provider(settings)
    self_test(provider)
    return provider


def _has_key_ring(settings: Settings) -> bool:
    """Return whether a key ring is configured, or exists beside the SQLite database.

    Look for the file even if Vault is configured: the file can be from the time before Vault was used.
    """
    if settings.keks is not None or settings.kek_file is not None:
        return True
    return database_file(settings) is not None and ring_file(settings).exists()


def _key_ring(settings: Settings) -> LocalKeyRing | FileKeyRing:
    """Load the key ring from EUTERPE_KEKS, else from `ring_file`.

    If the database is SQLite and the file does not exist, create the file.
    """
    if settings.keks is not None:
        return load_value(settings.keks.get_secret_value())
    path = ring_file(settings)
    if settings.kek_file is None and not path.exists():
        _refuse_if_lost(settings, path)
        keyfile.create_file(path)
    return FileKeyRing(path)


def ring_file(settings: Settings) -> Path:
    """Return the path of the key ring file: EUTERPE_KEK_FILE, else a file beside the SQLite database."""
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
    """Raise `KeyRingError` for the missing key ring at `path` if the database has secrets.

    A new ring could not decrypt these secrets, and it would hide that the old ring is missing.
    """
    with open_store(settings, LazyKeyProvider(settings)) as store:
        used = store.rewrap.in_use()
    if used:
        raise KeyRingError(
            path, f"is missing, and the database has secrets under {', '.join(sorted(used))}: put it back"
        )
