"""Errors of the store that a caller can act on; each has a stable `code`."""

from collections.abc import Sequence

from euterpe.domain.errors import EuterpeError


class StoreError(EuterpeError):
    code = "store_error"


class StoreUnavailable(StoreError):
    """The database is unavailable or too busy; the same call may succeed later. Nothing was written, unless
    the connection broke during the commit: then only reading the row shows whether it was written."""

    code = "database_unavailable"
    retryable = True


class UnsupportedDatabase(StoreError):
    code = "unsupported_database"


class SchemaMismatch(StoreError):
    """The program and the database are of different versions; the message names the command to run."""

    code = "schema_mismatch"


class NotFound(StoreError):
    code = "not_found"


class Pruned(NotFound):
    """The job existed, and its history has been removed since."""

    code = "pruned"


class Conflict(StoreError):
    """The state of the row does not allow this operation."""

    code = "conflict"


class IdempotencyConflict(StoreError):
    """The idempotency key was used before for a different request."""

    code = "idempotency_conflict"

    def __init__(self, key: str) -> None:
        super().__init__(f"idempotency key {key!r} was already used for a different request; use a new key")


class DuplicateSource(StoreError):
    code = "duplicate_source_ref"

    def __init__(self, source_refs: Sequence[str]) -> None:
        super().__init__(
            f"a job with this source_ref exists already; nothing of {source_refs!r} was enqueued"
        )


class Unauthorized(StoreError):
    code = "unauthorized"

    def __init__(self) -> None:
        super().__init__("the API key is unknown, expired or disabled")
