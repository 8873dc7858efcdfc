"""Tests of a job's credentials in an outage of the key provider."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.credentials import StorageCredentials
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.spec import JobSpec
from euterpe.domain.units import iso
from euterpe.storage.errors import StorageError
from euterpe.store.store import Store
from euterpe.worker.attempt_control import AttemptControl
from euterpe.worker.credentials import CredentialAccess
from tests.key_providers import WatchedKeyProvider
from tests.worker.job_secrets import CREDENTIALS, submit
from tests.worker.planes import claim_leased, store_plane


@pytest.fixture
def provider(ring: LocalKeyRing) -> WatchedKeyProvider:
    return WatchedKeyProvider(ring)


@pytest.fixture
def access(url: str, provider: WatchedKeyProvider) -> Iterator[CredentialAccess]:
    """Yield access to credentials that expire in 30 s.

    If the key provider is unavailable, the access does not wait until it is available again.
    """
    with Store(url, provider, sweep_every_ms=0) as store, store_plane(store) as plane:
        expires_at = iso(int(time.time() * 1000) + 30_000)
        credentials = {**CREDENTIALS, "expires_at": expires_at}
        submit(store, credentials=credentials, refresh_url="https://127.0.0.1:1/refresh")
        control = AttemptControl(claim_leased(store), 60, keys_wait_s=0.0)
        yield CredentialAccess(plane, control)


def test_credentials_that_expire_soon_are_used_while_the_keys_are_away(
    access: CredentialAccess, provider: WatchedKeyProvider
) -> None:
    def upload(_: JobSpec, credentials: StorageCredentials | None) -> StorageCredentials | None:
        return credentials

    before, provider.is_away = len(provider.calls), True
    with capture_logs() as logs:
        credentials = access.on("output", upload)
        assert access.on("output", upload) is credentials
    assert credentials is not None
    assert len(provider.calls) == before + 1, "only one call: a wait would use up the remaining time"
    assert [entry["event"] for entry in logs] == ["key_provider_unavailable", "early_refresh_skipped"]


def test_refused_credentials_need_the_keys(access: CredentialAccess, provider: WatchedKeyProvider) -> None:
    def upload(*_: object) -> None:
        raise StorageError(ErrorCode.OUTPUT_FORBIDDEN, "no", side="output")

    provider.is_away = True
    with pytest.raises(KeyProviderUnavailable):
        access.on("output", upload)


def test_the_wall_clock_of_a_worker_costs_no_refresh(store: Store) -> None:
    """The worker's clock is an hour fast, and the credentials are valid for half an hour."""
    expires_at = iso(int(time.time() * 1000) + 30 * 60_000)
    job_id = submit(
        store,
        credentials={**CREDENTIALS, "expires_at": expires_at},
        refresh_url="https://127.0.0.1:1/refresh",
    )
    with store_plane(store) as plane:
        read = plane.secrets
        plane.secrets = lambda job: replace(read(job), clock_ahead_s=3600.0)  # type: ignore[method-assign]
        control = AttemptControl(claim_leased(store), 60)
        access = CredentialAccess(plane, control, wall_clock=lambda: time.time() + 3600)
        access.on("output", lambda *_: None)
    assert store.jobs.get(job_id).refresh_count == 0
