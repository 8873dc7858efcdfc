"""Requesters, their API keys and webhook secrets: create, authenticate, rotate, disable."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from hmac import compare_digest

import sqlalchemy as sa

from euterpe.crypto import apikeys
from euterpe.crypto.apikeys import HashedKey
from euterpe.crypto.envelope import Sealed, seal, unseal, webhook_secret_context
from euterpe.crypto.key_provider import KeyProvider
from euterpe.crypto.signing import mint_webhook_secret
from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.job_limits import NO_LIMITS, JobLimits
from euterpe.domain.rows import RequesterRow
from euterpe.domain.scopes import DEFAULT_SCOPES, Scope
from euterpe.domain.text import check_text
from euterpe.store.engine.batch_rows import TEXT, AnyColumn, AnyRow, Rows, as_parameter, fetch_all
from euterpe.store.engine.database import Database
from euterpe.store.engine.ids import new_id
from euterpe.store.errors import Conflict, NotFound, Unauthorized
from euterpe.store.tables import api_keys, requesters, webhook_secrets

_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Each valid secret adds a signature to a header of the webhook, and at most about sixty signatures fit into
# this header.
_MAX_SECRETS = 10
_key, _secret, _requester = api_keys.c, webhook_secrets.c, requesters.c
_LIMITS = (_requester.max_timeout_seconds, _requester.max_attempts, _requester.max_priority)


@dataclass(frozen=True)
class NewRequester:
    """The secrets of a new requester, which are shown only once.

    The database has only a hash of the API key, and the webhook secret in sealed form.
    """

    requester_id: str
    api_key: str = field(repr=False)
    webhook_secret: str = field(repr=False)


@dataclass(frozen=True)
class Principal:
    """The requester that an API key authenticates, with the scopes of the key."""

    requester_id: str
    scopes: frozenset[str]
    limits: JobLimits = NO_LIMITS
    name: str = ""


class Requesters:
    """The requesters in the database, with their keys and secrets."""

    def __init__(self, database: Database, keys: KeyProvider) -> None:
        self._database, self._keys = database, keys
        valid = (
            sa.select(
                _key.key_id, _key.requester_id, _key.secret_hash, _key.scopes, _requester.name, *_LIMITS
            )
            .join(requesters)
            .where(_is_valid(_key.expires_at, database.now), _requester.disabled_at.is_(None))
        )
        self._by_key = valid.where(_key.key_id == sa.bindparam("key_id"))
        self._by_keys = valid.where(_key.key_id.in_(sa.select(Rows({"key_id": TEXT})["key_id"])))

    def create(self, name: str, scopes: Sequence[Scope] = DEFAULT_SCOPES) -> NewRequester:
        """Create a requester with an API key and a webhook secret; raise Conflict if the name is taken."""
        check_text("requester_name", name, "name")
        if _ID.fullmatch(name):
            raise InvalidSpec((FieldError(("name",), "must not look like an id"),))
        requester_id, minted, secret = new_id(), apikeys.mint(), mint_webhook_secret()
        sealed_row = self._sealed_row(requester_id, secret)
        with self._database.transaction() as connection:
            # The unique index on the name prevents duplicates, even if two calls run concurrently.
            row = {"requester_id": requester_id, "name": name, "created_at": self._database.now}
            insert = self._database.insert(requesters).values(row).on_conflict_do_nothing()
            if connection.execute(insert.returning(_requester.requester_id)).first() is None:
                raise Conflict(_name_taken(name, is_worker=self._is_worker(connection, name)))
            self._add_key(connection, requester_id, minted, [str(scope) for scope in scopes])
            self._add_secret(connection, sealed_row)
        return NewRequester(requester_id, minted.plaintext, secret)

    def _is_worker(self, connection: sa.Connection, name: str) -> bool:
        """Return whether `worker` is the only scope of the requester's API keys."""
        scopes = sa.select(_key.scopes).join(requesters).where(_requester.name == name)
        return all(set(granted) == {Scope.WORKER} for granted in connection.execute(scopes).scalars())

    def find(self, name_or_id: str) -> str:
        """Return the id of the requester with this name or id; raise NotFound if there is none."""
        is_id = _requester.requester_id == name_or_id
        named = sa.select(_requester.requester_id).where(sa.or_(_requester.name == name_or_id, is_id))
        with self._database.snapshot() as connection:
            # Prefer the id. Another requester can have this id as its name, because an earlier version of
            # `create` allowed such names.
            found = connection.execute(named.order_by(is_id.desc())).scalars().first()
        if found is None:
            raise NotFound(f"there is no requester {name_or_id!r}; `euterpe requester list` shows them")
        return str(found)

    def all(self) -> list[RequesterRow]:
        """Return all requesters, ordered by name, with the number of their valid keys."""
        keys = (
            sa.select(_key.requester_id, sa.func.count().label("valid_keys"))
            .join(requesters)
            .where(_is_valid(_key.expires_at, self._database.now), _requester.disabled_at.is_(None))
            .group_by(_key.requester_id)
            .subquery()
        )
        wanted = sa.select(requesters, sa.func.coalesce(keys.c.valid_keys, 0).label("valid_keys"))
        wanted = wanted.outerjoin(keys, keys.c.requester_id == _requester.requester_id)
        with self._database.snapshot() as connection:
            return [
                RequesterRow(**row) for row in connection.execute(wanted.order_by(_requester.name)).mappings()
            ]

    def workers(self) -> list[RequesterRow]:
        """Return the requesters whose API keys have no other scope than `worker`, ordered by name."""
        wanted = sa.select(_key.requester_id, _key.scopes)
        with self._database.snapshot() as connection:
            rows = connection.execute(wanted).all()
        others = {row.requester_id for row in rows if set(row.scopes) != {Scope.WORKER}}
        workers = {row.requester_id for row in rows} - others
        return [requester for requester in self.all() if requester.requester_id in workers]

    def disable(self, requester_id: str) -> None:
        """Refuse all API keys of the requester from now on. Its jobs are not changed."""
        with self._database.transaction() as connection:
            off = sa.func.coalesce(_requester.disabled_at, self._database.now)
            changed = sa.update(requesters).where(_requester.requester_id == requester_id)
            if connection.execute(changed.values(disabled_at=off)).rowcount == 0:
                raise NotFound(f"there is no requester {requester_id!r}")

    def rotate_key(self, requester_id: str, *, old_valid_ms: int) -> str:
        """Return a new API key with the scopes of the newest key; old keys expire after `old_valid_ms`."""
        minted = apikeys.mint()
        with self._database.transaction() as connection:
            self._lock(connection, requester_id)
            newest = sa.select(_key.scopes).where(_key.requester_id == requester_id)
            newest = newest.order_by(_key.created_at.desc(), _key.key_id).limit(1)
            scopes = connection.execute(newest).scalars().one()
            self._expire(connection, api_keys, requester_id, old_valid_ms)
            self._add_key(connection, requester_id, minted, scopes)
        return minted.plaintext

    def rotate_secret(self, requester_id: str, *, old_valid_ms: int) -> str:
        """Return a new webhook secret.

        Old secrets expire after `old_valid_ms`. Until then, each webhook is signed with them, too.
        """
        secret = mint_webhook_secret()
        sealed_row = self._sealed_row(requester_id, secret)
        with self._database.transaction() as connection:
            self._lock(connection, requester_id)
            self._expire(connection, webhook_secrets, requester_id, old_valid_ms)
            valid = sa.select(sa.func.count()).where(
                _secret.requester_id == requester_id, _is_valid(_secret.expires_at, self._database.now)
            )
            if connection.execute(valid).scalar_one() >= _MAX_SECRETS:
                raise Conflict(
                    f"{_MAX_SECRETS} webhook secrets are valid already, and each webhook is signed with all; "
                    "wait until one has expired, or rotate with --keep 0s, which ends all old secrets at once"
                )
            self._add_secret(connection, sealed_row)
        return secret

    def authenticate(self, api_key: str) -> Principal:
        """Return the requester that owns this key.

        Raise Unauthorized, always with the same message, if the key is unknown or expired, or if the
        requester is disabled.
        """
        parsed = apikeys.parse(api_key)
        with self._database.snapshot() as connection:
            row = connection.execute(self._by_key, {"key_id": parsed.key_id}).one_or_none()
        # Compare even if there is no row, so that the response time does not reveal which key ids exist.
        matches = apikeys.matches(parsed, row.secret_hash if row else "0" * 64)
        if row is None or not matches:
            raise Unauthorized
        return _principal(row)

    def still_valid(self, keys: Sequence[HashedKey]) -> dict[HashedKey, Principal]:
        """Return those keys that are still valid, each with its requester."""
        known = {key.key_id: key for key in keys}
        with self._database.snapshot() as connection:
            rows = fetch_all(
                connection.execute(self._by_keys, as_parameter({"key_id": id_} for id_ in known))
            )
        return {
            known[row.key_id]: _principal(row)
            for row in rows
            if compare_digest(known[row.key_id].secret_hash, row.secret_hash)
        }

    def webhook_secrets(self, requester_id: str) -> list[str]:
        """Return the valid secrets, newest first. Every webhook has a signature by each of these secrets."""
        wanted = sa.select(webhook_secrets).where(
            _secret.requester_id == requester_id, _is_valid(_secret.expires_at, self._database.now)
        )
        wanted = wanted.order_by(_secret.created_at.desc(), _secret.secret_id.desc())
        with self._database.snapshot() as connection:
            rows = connection.execute(wanted).all()
        return [self._open(row) for row in rows]

    def _lock(self, connection: sa.Connection, requester_id: str) -> None:
        """Lock the requester's row, so that concurrent rotations run one after the other.

        A rotation must see the key or secret that another rotation has just added, to make it expire. Raise
        NotFound if the requester does not exist, and Conflict if it is disabled.
        """
        known = sa.select(_requester.disabled_at).where(_requester.requester_id == requester_id)
        row = connection.execute(known.with_for_update()).one_or_none()
        if row is None:
            raise NotFound(f"there is no requester {requester_id!r}")
        if row.disabled_at is not None:
            raise Conflict(f"requester {requester_id} is disabled, for good; create another one")

    def _open(self, row: AnyRow) -> str:
        sealed = Sealed(
            row.secret_encrypted, row.secret_dek_wrapped, row.secret_kek_id, row.secret_encryption_version
        )
        context = webhook_secret_context(row.requester_id, row.secret_id)
        return unseal(sealed, context, self._keys).decode()

    def _add_key(
        self, connection: sa.Connection, requester_id: str, minted: apikeys.MintedKey, scopes: Sequence[str]
    ) -> None:
        connection.execute(
            sa.insert(api_keys).values(
                key_id=minted.key_id,
                requester_id=requester_id,
                secret_hash=minted.secret_hash,
                scopes=list(scopes),
                created_at=self._database.now,
            )
        )

    def _sealed_row(self, requester_id: str, secret: str) -> dict[str, object]:
        """Return the row of a new secret. Call this outside transactions: a key provider may be remote."""
        secret_id = new_id()
        sealed = seal(secret.encode(), webhook_secret_context(requester_id, secret_id), self._keys)
        return {
            "secret_id": secret_id,
            "requester_id": requester_id,
            "secret_encrypted": sealed.ciphertext,
            "secret_dek_wrapped": sealed.dek_wrapped,
            "secret_kek_id": sealed.kek_id,
            "secret_encryption_version": sealed.version,
        }

    def _add_secret(self, connection: sa.Connection, sealed_row: dict[str, object]) -> None:
        connection.execute(sa.insert(webhook_secrets).values(**sealed_row, created_at=self._database.now))

    def _expire(self, connection: sa.Connection, table: sa.Table, requester_id: str, after_ms: int) -> None:
        """Make keys or secrets expire after `after_ms`, unless they expire earlier anyway."""
        end = self._database.now + after_ms
        valid_longer = sa.or_(table.c.expires_at.is_(None), table.c.expires_at > end)
        ending = sa.update(table).where(table.c.requester_id == requester_id, valid_longer)
        connection.execute(ending.values(expires_at=end))


def _is_valid(expires_at: AnyColumn, now: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    return sa.or_(expires_at.is_(None), expires_at > now)


def _principal(row: AnyRow) -> Principal:
    limits = JobLimits(row.max_timeout_seconds, row.max_attempts, row.max_priority)
    return Principal(row.requester_id, frozenset(row.scopes), limits, row.name)


def _name_taken(name: str, *, is_worker: bool) -> str:
    kind, end = ("worker key", "worker-key revoke") if is_worker else ("requester", "requester disable")
    return (
        f"there is a {kind} named {name!r} already; choose another name: a name is never free again, not "
        f"even after `euterpe {end}`"
    )
