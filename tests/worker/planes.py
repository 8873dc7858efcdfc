"""The control plane of the tests: a `StorePlane` whose refresh calls reach no requester."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from euterpe.control.refresher import Refresher
from euterpe.control.store_plane import StorePlane, leased
from euterpe.domain.leased_job import LeasedJob
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.store.store import Store
from tests.store.jobs import claim_one


@contextmanager
def store_plane(store: Store, **options: Any) -> Iterator[StorePlane]:
    with Egress(EgressPolicy(())) as egress:
        refresher = Refresher(store, egress, max_refreshes=3)
        plane = StorePlane(store, refresher, "w1", **options)
        try:
            yield plane
        finally:
            plane.close()


def claim_leased(store: Store, **options: Any) -> LeasedJob:
    """Claim the only job, and return it in the form that a worker gets."""
    return leased(claim_one(store, **options))
