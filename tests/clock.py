"""A clock for tests, which a store takes in place of the database's own."""

from sqlalchemy import BigInteger, ColumnElement, bindparam


class SettableClock:
    """A clock that moves only by `advance`."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now_ms = now_ms

    def advance(self, ms: int) -> None:
        self.now_ms += ms

    def now(self, dialect: str) -> ColumnElement[int]:
        del dialect  # the same parameter on every engine
        return bindparam("settable_now", callable_=lambda: self.now_ms, type_=BigInteger)
