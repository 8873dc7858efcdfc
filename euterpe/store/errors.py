"""Errors of the store that a caller can act on; each has a stable `code`."""

from collections.abc import Sequence

from euterpe.domain.errors import EuterpeError
from euterpe.domain.leased_job import Unavailable


class StoreError(EuterpeError):
    code = "store_error"


class StoreUnavailable(StoreError, Unavailable):
    """The database is unavailable or too busy, and the same call may succeed later.

    Nothing was written, unless the connection broke during the commit. In that case the caller must read the
    row to find out whether it was written.
    """

    code = "database_unavailable"
    retryable = True


class UnsupportedDatabase(StoreError):
    code = "unsupported_database"


class SchemaMismatch(StoreError):
    """The program and the database have different schema versions; the message says how to fix that."""

    code = "schema_mismatch"


class NotFound(StoreError):
    code = "not_found"


class Pruned(NotFound):
    """The job existed, but it was pruned."""

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
            f"a job with one of these source_refs exists already, so no job was enqueued: {source_refs!r}"
        )


class NotActive(StoreError, RuntimeError):
    """Nobody owns the queue job: it waits, has ended, or does not exist.

    This is a subclass of RuntimeError, because OmniQ's client raises a RuntimeError in this case.
    """

    code = "not_active"

    def __init__(self, queue: str, job_id: str) -> None:
        super().__init__(f"NOT_ACTIVE: nobody owns the job {job_id!r} of the queue {queue!r}; stop the work")


class TokenMismatch(StoreError, RuntimeError):
    """Another claim owns the queue job.

    This is a subclass of RuntimeError, because OmniQ's client raises a RuntimeError in this case.
    """

    code = "token_mismatch"

    def __init__(self, queue: str, job_id: str) -> None:
        super().__init__(
            f"TOKEN_MISMATCH: another claim owns the job {job_id!r} of the queue {queue!r}; stop the work"
        )


class Unauthorized(StoreError):
    code = "unauthorized"

    def __init__(self) -> None:
        super().__init__("the API key is unknown, expired or disabled")
