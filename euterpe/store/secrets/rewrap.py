"""KEK rotation: rewrap every data key under the active KEK, in small batches.

A rotation can run under load. A row is written only if its KEK has not changed since the row was read. For a
row of credentials, the version of the credentials must not have changed either, so that a rotation never
overwrites refreshed credentials. A rotation can be interrupted: the next run needs no state of the
interrupted run, because it rewraps each secret that is not under the active KEK.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import sqlalchemy as sa

from euterpe.crypto.envelope import (
    Context,
    Sealed,
    callbacks_context,
    check,
    credentials_context,
    hls_keys_context,
    rewrap,
    service_secret_context,
    webhook_secret_context,
)
from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.crypto.key_provider import KeyProvider
from euterpe.domain.errors import EuterpeError
from euterpe.store.engine.batch_rows import AnyRow, AnySelect
from euterpe.store.engine.database import Database
from euterpe.store.tables import inbox_jobs, service_secrets, webhook_secrets


@dataclass(frozen=True)
class _SealedColumns:
    """The columns of a table that hold a sealed secret, and the function that returns a row's `Context`."""

    table: sa.Table
    encrypted: str
    wrapped: str
    kek_id: str
    version: str
    context: Callable[[Any], Context]
    owner: Sequence[str]  # the columns that `context` reads, besides the key and the columns in `unchanged`
    unchanged: Sequence[str]  # a row is written only if these columns have not changed since it was read

    @property
    def key(self) -> sa.Column[Any]:
        (key,) = self.table.primary_key.columns
        return key

    def column(self, name: str) -> sa.Column[Any]:
        return self.table.c[name]


_PLACES = (
    _SealedColumns(
        inbox_jobs,
        "storage_creds_encrypted",
        "storage_creds_dek_wrapped",
        "storage_creds_kek_id",
        "storage_creds_encryption_version",
        lambda row: credentials_context(row.job_id, row.requester_id, row.credential_version),
        ("requester_id",),
        ("credential_version",),
    ),
    _SealedColumns(
        inbox_jobs,
        "callbacks_encrypted",
        "callbacks_dek_wrapped",
        "callbacks_kek_id",
        "callbacks_encryption_version",
        lambda row: callbacks_context(row.job_id, row.requester_id),
        ("requester_id",),
        (),
    ),
    _SealedColumns(
        inbox_jobs,
        "hls_key_encrypted",
        "hls_key_dek_wrapped",
        "hls_key_kek_id",
        "hls_key_encryption_version",
        lambda row: hls_keys_context(row.job_id, row.requester_id),
        ("requester_id",),
        (),
    ),
    _SealedColumns(
        webhook_secrets,
        "secret_encrypted",
        "secret_dek_wrapped",
        "secret_kek_id",
        "secret_encryption_version",
        lambda row: webhook_secret_context(row.requester_id, row.secret_id),
        ("requester_id",),
        (),
    ),
    _SealedColumns(
        service_secrets,
        "secret_encrypted",
        "secret_dek_wrapped",
        "secret_kek_id",
        "secret_encryption_version",
        lambda row: service_secret_context(row.secret_id),
        (),
        (),
    ),
)


@dataclass(frozen=True)
class RewrapProgress:
    moved: int
    broken: tuple[str, ...]  # for each row that cannot be opened, its id and the reason


class Rewrap:
    """Move all sealed secrets to the active KEK; count and check the secrets under each KEK."""

    def __init__(self, database: Database, keys: KeyProvider) -> None:
        self._database, self._keys = database, keys

    def in_use(self) -> dict[str, int]:
        """Return how many secrets each KEK wraps. A KEK that wraps no secret can be retired."""
        counts: dict[str, int] = {}
        with self._database.snapshot() as connection:
            for place in _PLACES:
                kek = place.column(place.kek_id)
                found = sa.select(kek, sa.func.count()).where(kek.is_not(None)).group_by(kek)
                for kek_id, count in connection.execute(found):
                    counts[kek_id] = counts.get(kek_id, 0) + count
        return counts

    def run(self, batch: int = 100) -> Iterator[RewrapProgress]:
        """Rewrap in batches, and yield the totals so far after each batch.

        A secret that cannot be opened is skipped and reported as broken, so that it does not block the
        rotation of all other secrets. An outage of the key provider ends the run, because an outage does not
        show that a secret is broken.
        """
        progress = RewrapProgress(0, ())
        batch = min(batch, self._database.engines.read_limit)
        for place in _PLACES:
            after = ""
            while rows := self._next(place, after, batch):
                # Rewrap outside the transaction, because a key provider may be a remote service.
                fresh, broken = self._rewrapped(place, rows)
                moved = sum(self._move(place, row, new) for row, new in fresh)
                progress = RewrapProgress(progress.moved + moved, (*progress.broken, *broken))
                after = rows[-1][0]
                yield progress

    def unreadable(self, per_kek: int = 10) -> list[str]:
        """Try to open the newest secrets under each KEK; return those that fail, each with the reason."""
        found = []
        for place, kek_id in product(_PLACES, self.in_use()):
            wanted = _select(place).where(place.column(place.kek_id) == kek_id)
            with self._database.snapshot() as connection:
                rows = connection.execute(wanted.order_by(place.key.desc()).limit(per_kek)).all()
            for row in rows:
                try:
                    check(_sealed(place, row), place.context(row), self._keys)
                except KeyProviderUnavailable:
                    raise
                except EuterpeError as error:
                    found.append(f"{place.table.name} {row[0]}: {error}")
        return found

    def _next(self, place: _SealedColumns, after: str, batch: int) -> Sequence[AnyRow]:
        kek = place.column(place.kek_id)
        wanted = _select(place).where(kek.is_not(None), kek != self._keys.active_id, place.key > after)
        with self._database.snapshot() as connection:
            return connection.execute(wanted.order_by(place.key).limit(batch)).all()

    def _rewrapped(
        self, place: _SealedColumns, rows: Sequence[AnyRow]
    ) -> tuple[list[tuple[AnyRow, Sealed]], list[str]]:
        fresh, broken = [], []
        for row in rows:
            try:
                fresh.append((row, rewrap(_sealed(place, row), place.context(row), self._keys)))
            except KeyProviderUnavailable:
                raise
            except EuterpeError as error:
                broken.append(f"{place.table.name} {row[0]}: {error}")
        return fresh, broken

    def _move(self, place: _SealedColumns, row: AnyRow, new: Sealed) -> int:
        """Write a row in its own transaction: one transaction for several rows could cause a deadlock."""
        as_read = [place.column(name) == getattr(row, name) for name in (place.kek_id, *place.unchanged)]
        changed = sa.update(place.table).where(place.key == row[0], *as_read)
        values = {place.wrapped: new.dek_wrapped, place.kek_id: new.kek_id}
        with self._database.transaction() as connection:
            return connection.execute(changed.values(values)).rowcount


def _select(place: _SealedColumns) -> AnySelect:
    names = [place.encrypted, place.wrapped, place.kek_id, place.version, *place.owner, *place.unchanged]
    return sa.select(place.key, *(place.column(name) for name in names))


def _sealed(place: _SealedColumns, row: Any) -> Sealed:
    return Sealed(
        getattr(row, place.encrypted),
        getattr(row, place.wrapped),
        getattr(row, place.kek_id),
        getattr(row, place.version),
    )
