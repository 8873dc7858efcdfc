"""Tests of attempts at jobs whose credentials this worker cannot decrypt."""

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from euterpe.domain.retry import JobError, RetryClass
from euterpe.domain.strict_json import canonical_text
from euterpe.store.store import Store
from euterpe.worker.attempt import Attempt, Tools
from euterpe.worker.attempt_control import AttemptControl
from euterpe.worker.interruptions import AttemptResult
from tests.clock import SettableClock
from tests.store.jobs import claim_one, event_types
from tests.worker.job_secrets import CREDENTIALS, alter_seal, submit


@pytest.fixture(autouse=True)
def _open_workdir(tools: Tools) -> Iterator[None]:
    tools.workdir.open()
    yield
    tools.workdir.close()


def run_attempt(tools: Tools) -> AttemptResult:
    return Attempt(tools, AttemptControl(claim_one(tools.store), 60)).run()


@pytest.mark.parametrize(
    ("sealed", "code"),
    [({"kek_id": "k9"}, "unknown_kek"), ({"encryption_version": 9}, "unknown_encryption_version")],
)
def test_a_job_whose_secrets_cannot_be_opened_is_released_without_a_charge(
    store: Store, clock: SettableClock, tools: Tools, sealed: dict[str, Any], code: str
) -> None:
    alter_seal(store, job_id := submit(store, max_attempts=1), **sealed)
    with capture_logs() as logs:
        assert run_attempt(tools) is AttemptResult.RELEASED, "the worker has no fault"
    row = store.jobs.get(job_id)
    assert (row["status"], row["attempt_count"]) == ("queued", 0)
    assert 2_500 <= row["available_at"] - clock.now_ms <= 5_000
    (attempt,) = store.jobs.attempts(job_id)
    assert (attempt["outcome"], attempt["error"]["code"]) == ("released", code)
    assert event_types(store, job_id) == ["claimed", "queued"]
    (warning,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert (warning["event"], warning["code"]) == ("attempt_not_charged", code)


def test_the_delay_doubles_with_each_release_up_to_five_minutes(
    store: Store, clock: SettableClock, tools: Tools
) -> None:
    alter_seal(store, job_id := submit(store), kek_id="k9")
    longest_delays_ms = [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]
    for longest_ms in longest_delays_ms:
        run_attempt(tools)
        due = store.jobs.get(job_id)["available_at"]
        assert longest_ms / 2 <= due - clock.now_ms <= longest_ms
        clock.now_ms = due


def test_charged_failures_do_not_lengthen_the_delay(store: Store, clock: SettableClock, tools: Tools) -> None:
    job_id = submit(store, max_attempts=5)
    for _ in range(4):
        store.inbox.fail(
            claim_one(store), JobError("source_unreachable", "…", "fetching", RetryClass.TRANSIENT)
        )
        clock.now_ms = store.jobs.get(job_id)["available_at"]
    alter_seal(store, job_id, kek_id="k9")
    run_attempt(tools)
    row = store.jobs.get(job_id)
    assert row["attempt_count"] == 4
    assert row["available_at"] - clock.now_ms <= 5_000


def test_new_credentials_cure_a_job_whose_key_is_lost(
    store: Store, clock: SettableClock, tools: Tools
) -> None:
    alter_seal(store, job_id := submit(store), kek_id="k9")
    run_attempt(tools)
    store.credentials.replace(job_id, "r1", canonical_text({"credentials": CREDENTIALS}).encode())
    clock.advance(5_000)
    run_attempt(tools)
    error = store.jobs.get(job_id)["last_error"]
    assert (error["code"], error["phase"]) == ("endpoint_not_allowed", "fetching"), "they were opened"


def test_a_cancel_ends_a_job_whose_secrets_cannot_be_opened(store: Store, tools: Tools) -> None:
    alter_seal(store, job_id := submit(store), kek_id="k9")
    job = claim_one(store)
    store.control.cancel(job_id)
    Attempt(tools, AttemptControl(job, 60)).run()
    assert store.jobs.get(job_id)["last_error"]["code"] == "canceled"
