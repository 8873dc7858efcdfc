"""Secrets of the service itself, which all its processes share: the keys of the lease tokens.

A key is made on its first use, and stored sealed. A rotation adds a key, and lets the old keys expire later,
so that tokens with a signature by an old key stay valid for a time.
"""

import os
from dataclasses import dataclass, field

import sqlalchemy as sa

from euterpe.crypto.envelope import Sealed, seal, service_secret_context, unseal
from euterpe.crypto.key_provider import KeyProvider
from euterpe.store.checks import WEEK_MS
from euterpe.store.engine.batch_rows import AnyRow
from euterpe.store.engine.database import Database
from euterpe.store.tables import service_secrets

_secret = service_secrets.c
_LEASE = "lease"
_KEY_BYTES = 32


@dataclass(frozen=True)
class ServiceKey:
    """A secret key. Every token that the key signs contains `key_id`, which is public."""

    key_id: str
    key: bytes = field(repr=False)


class ServiceSecrets:
    def __init__(self, database: Database, keys: KeyProvider) -> None:
        self._database, self._keys = database, keys

    def lease_keys(self) -> list[ServiceKey]:
        """Return the keys that are valid now, newest first; on the first call, make a key.

        Sign with the first key. A process that meets an unknown `key_id` must call this again, because
        another process may have rotated the keys.
        """
        rows = self._valid()
        if not rows:
            self._add(1)
            rows = self._valid()
        return [ServiceKey(row.secret_id, self._open(row)) for row in rows]

    def rotate_lease_key(self, *, old_valid_ms: int = WEEK_MS) -> None:
        """Add a key, and delete the expired keys. The keys that are valid now expire after `old_valid_ms`.

        The default is the longest timeout of a job.
        """
        self._add(self._newest_number() + 1, old_valid_ms=old_valid_ms)

    def _add(self, number: int, *, old_valid_ms: int | None = None) -> None:
        """Insert key `number`, and let the older keys expire. If the key exists, change nothing.

        So two processes that add a key with the same number at once agree on one key.
        """
        sealed_row = self._sealed_row(number)
        with self._database.transaction() as connection:
            row = {**sealed_row, "created_at": self._database.now}
            insert = self._database.insert(service_secrets).values(row).on_conflict_do_nothing()
            is_new = connection.execute(insert.returning(_secret.secret_id)).first() is not None
            if is_new and old_valid_ms is not None:
                self._expire(connection, number, old_valid_ms)

    def _expire(self, connection: sa.Connection, number: int, old_valid_ms: int) -> None:
        now, is_lease = self._database.now, _secret.purpose == _LEASE
        older = (is_lease, _secret.number < number, _secret.expires_at.is_(None))
        connection.execute(sa.delete(service_secrets).where(is_lease, _secret.expires_at <= now))
        connection.execute(sa.update(service_secrets).where(*older).values(expires_at=now + old_valid_ms))

    def _valid(self) -> list[AnyRow]:
        is_valid = sa.or_(_secret.expires_at.is_(None), _secret.expires_at > self._database.now)
        wanted = sa.select(service_secrets).where(_secret.purpose == _LEASE, is_valid)
        with self._database.snapshot() as connection:
            return list(connection.execute(wanted.order_by(_secret.number.desc())).all())

    def _newest_number(self) -> int:
        newest = sa.select(sa.func.coalesce(sa.func.max(_secret.number), 0)).where(_secret.purpose == _LEASE)
        with self._database.snapshot() as connection:
            return int(connection.execute(newest).scalar_one())

    def _sealed_row(self, number: int) -> dict[str, object]:
        """Return the row of a new key. Call this outside transactions: a key provider may be remote."""
        secret_id = f"{_LEASE}-{number}"
        sealed = seal(os.urandom(_KEY_BYTES), service_secret_context(secret_id), self._keys)
        return {
            "secret_id": secret_id,
            "purpose": _LEASE,
            "number": number,
            "secret_encrypted": sealed.ciphertext,
            "secret_dek_wrapped": sealed.dek_wrapped,
            "secret_kek_id": sealed.kek_id,
            "secret_encryption_version": sealed.version,
        }

    def _open(self, row: AnyRow) -> bytes:
        sealed = Sealed(
            bytes(row.secret_encrypted),
            bytes(row.secret_dek_wrapped),
            row.secret_kek_id,
            row.secret_encryption_version,
        )
        return unseal(sealed, service_secret_context(row.secret_id), self._keys)
