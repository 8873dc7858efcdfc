import json

import pytest
from structlog.testing import capture_logs

from euterpe.client.requests import ApiResponse
from euterpe.client.worker_answers import BeatAnswer, claimed
from euterpe.domain.leased_job import ProgressFigures
from euterpe.worker.remote.held_lease import HeldLease
from tests.worker.remote.answers import job

HELD, LOST = BeatAnswer(held=True), BeatAnswer(held=False, code="lease_lost")


@pytest.fixture
def lease() -> HeldLease:
    """Return a lease of 60 s. The claim of this lease was sent at 100.0 and answered at 110.0."""
    (found,) = claimed(ApiResponse(200, {}, json.dumps(job()).encode())).jobs
    return HeldLease(found, sent_at=100.0, received_at=110.0)


def test_a_lease_is_proof_from_the_request_on(lease: HeldLease) -> None:
    assert lease.holds_until == 160.0
    lease.take(HELD, sent_at=120.0, received_at=125.0)
    assert lease.holds_until == 180.0


def test_nothing_is_published_shortly_before_the_end_of_the_proof(lease: HeldLease) -> None:
    assert lease.may_publish(149.9)
    assert not lease.may_publish(150.0)
    lease.take(BeatAnswer(held=True, lease_ttl_s=4.0), sent_at=150.0, received_at=150.1)
    assert lease.may_publish(152.9)
    assert not lease.may_publish(153.0)
    lease.lose("lease_lost")
    assert not lease.may_publish(151.0)


def test_a_lease_has_run_out_from_the_answer_on(lease: HeldLease) -> None:
    assert not lease.has_run_out(169.9)
    assert lease.has_run_out(170.0)
    assert not lease.has_run_out(171.0)  # reported once
    lease.take(HELD, sent_at=172.0, received_at=173.0)  # revived
    assert lease.has_run_out(233.0)


def test_a_late_answer_does_not_revive_a_lost_job(lease: HeldLease) -> None:
    lease.take(LOST, sent_at=121.0, received_at=122.0)
    lease.take(HELD, sent_at=120.0, received_at=123.0)
    lease.take(HELD, sent_at=124.0, received_at=125.0)
    assert lease.is_lost
    assert lease.holds_until == float("-inf")


def test_an_older_answer_that_arrives_later_proves_nothing_new(lease: HeldLease) -> None:
    lease.take(BeatAnswer(held=True, lease_ttl_s=10.0), sent_at=121.0, received_at=122.0)
    lease.take(HELD, sent_at=120.0, received_at=123.0)
    assert lease.holds_until == 131.0


def test_a_new_lease_time_of_the_server_counts(lease: HeldLease) -> None:
    """After a restart, the server may give shorter leases, so the worker must use the new length."""
    lease.take(BeatAnswer(held=True, lease_ttl_s=10.0), sent_at=120.0, received_at=125.0)
    assert (lease.holds_until, lease.ttl_s) == (130.0, 10.0)
    lease.renew(sent_at=126.0, received_at=127.0)
    assert lease.holds_until == 136.0


def test_a_requested_cancel_is_kept(lease: HeldLease) -> None:
    lease.take(BeatAnswer(held=True, cancel_requested=True), sent_at=120.0, received_at=121.0)
    lease.take(HELD, sent_at=122.0, received_at=123.0)
    assert lease.cancel_requested


def test_a_refused_token_is_an_error_in_the_log_once(lease: HeldLease) -> None:
    with capture_logs() as logs:
        lease.lose("invalid_lease_token")
        lease.lose("invalid_lease_token")
    assert [log["event"] for log in logs] == ["lease_token_refused"]
    assert "elt1" not in str(logs)


def test_progress_rides_on_the_next_beat_once(lease: HeldLease) -> None:
    lease.note_progress(ProgressFigures(12.5, eta_seconds=3.0))
    lease.note_progress(ProgressFigures(13.5, speed=2.0))
    assert lease.beat({"cpu": 1.5}, 111.0).values == {"progress": 13.5, "speed": 2.0, "timings": {"cpu": 1.5}}
    assert lease.beat(None, 112.0).values == {}


def test_a_figure_without_a_json_form_is_left_out(lease: HeldLease) -> None:
    lease.note_progress(ProgressFigures(12.5, eta_seconds=float("inf"), speed=float("nan")))
    assert lease.beat(None, 111.0).values == {"progress": 12.5}


def test_progress_is_due_after_the_interval_of_the_server(lease: HeldLease) -> None:
    assert not lease.is_progress_due(200.0)  # no progress was noted yet
    lease.note_progress(ProgressFigures(1.0))
    assert not lease.is_progress_due(114.9)
    assert lease.is_progress_due(115.0)
    lease.beat(None, 115.0)
    lease.note_progress(ProgressFigures(2.0))
    assert not lease.is_progress_due(119.9)
    lease.lose("lease_lost")
    assert not lease.is_progress_due(200.0)
