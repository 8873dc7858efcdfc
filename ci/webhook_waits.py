"""Print how long one requester's webhooks wait while another requester's origins do not answer.

Run `.venv/bin/python -m ci.webhook_waits`. The measurement takes about a minute and needs only SQLite.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.dead_origins import add_events_at, record_dials, silent_origins
from tests.dispatch.fake_receivers import Receiver
from tests.engines import Sqlite

_RING = LocalKeyRing(KeySet(where="ci", active="k1", keys={"k1": b"1" * 32}))
_DEADLINE_S = 10.0
_EVENTS = 5


@contextmanager
def _opened() -> Iterator[Store]:
    with (
        tempfile.TemporaryDirectory(prefix="euterpe-waits-") as folder,
        Sqlite(Path(folder)).fresh() as url,
        Store(url, _RING) as store,
    ):
        yield store


def measure(origins: int, *, restarts: bool) -> list[float]:
    """Return the waits in seconds of a healthy requester's events.

    Each event is added after the delivery of the previous event.
    """
    with _opened() as store, closing(Receiver()) as receiver, silent_origins(origins) as dead:
        hostile, healthy = store.requesters.create("hostile"), store.requesters.create("healthy")
        add_events_at(store, hostile, dead, each=5)
        if restarts:
            with record_dials(store, "first", deadline_s=_DEADLINE_S):
                time.sleep(_DEADLINE_S)
        with record_dials(store, "second", deadline_s=_DEADLINE_S):
            time.sleep(0 if restarts else 2.0)
            return [_wait(store, healthy, receiver, number) for number in range(1, _EVENTS + 1)]


def _wait(store: Store, healthy: NewRequester, receiver: Receiver, number: int) -> float:
    began = time.monotonic()
    add_events_at(store, healthy, [receiver.url])
    receiver.wait_for(number)
    return time.monotonic() - began


if __name__ == "__main__":
    for name, origins, restarts in (
        ("alone", 0, False),
        ("with 150 dead origins", 150, False),
        ("with 1,000 dead origins", 1_000, False),
        ("with 150, after a restart", 150, True),
    ):
        waits = measure(origins, restarts=restarts)
        print(f"{name}: first {waits[0]:.3f} s, longest {max(waits):.3f} s")  # noqa: T201
