"""Tests of attempts at jobs whose credentials this worker cannot decrypt, temporarily or permanently."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from euterpe.control.store_plane import StorePlane
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import JobError
from euterpe.domain.strict_json import canonical_text
from euterpe.store.store import Store
from euterpe.worker.attempt import Attempt
from euterpe.worker.attempt_control import AttemptControl, AttemptResult, CancelRequested
from euterpe.worker.tools import Tools
from tests.clock import SettableClock
from tests.key_providers import WatchedKeyProvider
from tests.store.attempts import fail_job
from tests.store.jobs import claim_one, event_types
from tests.worker.job_secrets import CREDENTIALS, alter_seal, submit
from tests.worker.planes import claim_leased, store_plane


@pytest.fixture(autouse=True)
def _open_workdir(tools: Tools) -> Iterator[None]:
    tools.workdir.open()
    yield
    tools.workdir.close()


def run_attempt(store: Store, tools: Tools) -> AttemptResult:
    return Attempt(tools, AttemptControl(claim_leased(store), 60)).run()


@pytest.mark.parametrize(
    ("sealed", "code"),
    [({"kek_id": "k9"}, "unknown_kek"), ({"encryption_version": 9}, "unknown_encryption_version")],
)
def test_a_job_whose_secrets_cannot_be_opened_is_released_without_a_charge(
    store: Store, clock: SettableClock, tools: Tools, sealed: dict[str, Any], code: str
) -> None:
    alter_seal(store, job_id := submit(store, max_attempts=1), **sealed)
    with capture_logs() as logs:
        assert run_attempt(store, tools) is AttemptResult.RELEASED, "the worker has no fault"
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count) == ("queued", 0)
    assert 2_500 <= row.available_at - clock.now_ms <= 5_000
    (attempt,) = store.jobs.attempts(job_id)
    assert (attempt.outcome, attempt.error_code) == ("released", code)
    assert event_types(store, job_id) == ["claimed", "queued"]
    (warning,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert (warning["event"], warning["code"]) == ("attempt_not_charged", code)


def test_the_delay_doubles_with_each_release_up_to_five_minutes(
    store: Store, clock: SettableClock, tools: Tools
) -> None:
    alter_seal(store, job_id := submit(store), kek_id="k9")
    longest_delays_ms = [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]
    for longest_ms in longest_delays_ms:
        run_attempt(store, tools)
        due = store.jobs.get(job_id).available_at
        assert longest_ms / 2 <= due - clock.now_ms <= longest_ms
        clock.now_ms = due


def test_charged_failures_do_not_lengthen_the_delay(store: Store, clock: SettableClock, tools: Tools) -> None:
    job_id = submit(store, max_attempts=5)
    for _ in range(4):
        fail_job(
            store,
            claim_one(store),
            JobError(ErrorCode.SOURCE_UNREACHABLE, "…", "fetching", RetryClass.TRANSIENT),
        )
        clock.now_ms = store.jobs.get(job_id).available_at
    alter_seal(store, job_id, kek_id="k9")
    run_attempt(store, tools)
    row = store.jobs.get(job_id)
    assert row.attempt_count == 4
    assert row.available_at - clock.now_ms <= 5_000


def test_new_credentials_cure_a_job_whose_key_is_lost(
    store: Store, clock: SettableClock, tools: Tools
) -> None:
    alter_seal(store, job_id := submit(store), kek_id="k9")
    run_attempt(store, tools)
    store.credentials.replace(job_id, "r1", canonical_text({"credentials": CREDENTIALS}).encode())
    clock.advance(5_000)
    run_attempt(store, tools)
    error = store.jobs.get(job_id).last_error or {}
    assert error["code"] == "storage_endpoint_missing", "the credentials must open"


def test_a_cancel_ends_a_job_whose_secrets_cannot_be_opened(store: Store, tools: Tools) -> None:
    alter_seal(store, job_id := submit(store), kek_id="k9")
    job = claim_leased(store)
    store.control.cancel(job_id)
    Attempt(tools, AttemptControl(job, 60)).run()
    assert store.jobs.get(job_id).error_code == "canceled"


@pytest.fixture
def provider(ring: LocalKeyRing) -> WatchedKeyProvider:
    return WatchedKeyProvider(ring)


@pytest.fixture
def watched_tools(
    url: str, provider: WatchedKeyProvider, clock: SettableClock, tools: Tools
) -> Iterator[Tools]:
    """Yield tools whose store has a key provider that tests can make unavailable."""
    with Store(url, provider, clock=clock, sweep_every_ms=0) as watched, store_plane(watched) as plane:
        yield replace(tools, plane=plane)


@pytest.fixture
def watched(watched_tools: Tools) -> Store:
    plane = watched_tools.plane
    assert isinstance(plane, StorePlane)
    return plane.store


def test_a_job_is_released_without_a_charge_while_the_keys_are_away(
    provider: WatchedKeyProvider, watched: Store, watched_tools: Tools
) -> None:
    store = watched
    job_id = submit(store, max_attempts=1)
    provider.is_away = True
    control = AttemptControl(claim_leased(store), 60, keys_wait_s=0.0)
    with capture_logs() as logs:
        assert Attempt(watched_tools, control).run() is AttemptResult.RELEASED, "the worker has no fault"
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count, row.refresh_count) == ("queued", 0, 0)
    (attempt,) = store.jobs.attempts(job_id)
    assert (attempt.outcome, attempt.error_code) == ("released", "key_provider_unavailable")
    assert "took it away" not in (attempt.error or {})["message"], "the requester reads this message"
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == [
        "key_provider_unavailable",
        "attempt_not_charged",
    ]


def test_an_attempt_goes_on_when_the_keys_come_back(
    provider: WatchedKeyProvider, watched: Store, watched_tools: Tools
) -> None:
    store = watched
    submit(store)
    control = AttemptControl(claim_leased(store), 60)
    before, provider.is_away = len(provider.calls), True
    open_credentials = partial(watched_tools.plane.secrets, control.job)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(control.retry_while_unavailable, open_credentials)
        provider.wait_for_calls(before + 2)
        provider.is_away = False
        secrets = opening.result()
    assert (secrets.storage is not None, secrets.credential_version) == (True, 1)


def test_a_wait_for_the_keys_ends_when_the_attempt_must_stop(
    provider: WatchedKeyProvider, watched: Store, watched_tools: Tools
) -> None:
    store = watched
    submit(store)
    control = AttemptControl(claim_leased(store), 60)
    provider.is_away = True
    control.end(CancelRequested("the job was canceled"))
    with pytest.raises(CancelRequested):
        control.retry_while_unavailable(lambda: watched_tools.plane.secrets(control.job))
