"""A settable clock, which a store uses instead of the database's clock."""

from sqlalchemy import BigInteger, ColumnElement, bindparam


class SettableClock:
    """A clock that changes only by `advance`."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now_ms = now_ms

    def advance(self, ms: int) -> None:
        self.now_ms += ms

    def now(self, dialect: str) -> ColumnElement[int]:
        del dialect  # every engine gets the same bind parameter
        return bindparam("settable_now", callable_=lambda: self.now_ms, type_=BigInteger)
