"""The calls of OmniQ's client contract, on every engine. docs/contract-queue.md has a test for each line."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.errors import InvalidSpec
from euterpe.queue import NotActive, Paused, Queue, ReservedJob, TokenMismatch
from euterpe.store.errors import SchemaMismatch
from tests.clock import SettableClock
from tests.queue.conftest import NAME, Caller, lease

TIMEOUT_MS, BACKOFF_MS = 30_000, 5_000


def test_every_call_takes_keyword_arguments_alone() -> None:
    for name in ("publish", "reserve", "heartbeat", "ack_success", "ack_fail", "consume", "pause", "resume"):
        kinds = [p.kind for p in inspect.signature(getattr(Queue, name)).parameters.values()][1:]
        assert set(kinds) == {inspect.Parameter.KEYWORD_ONLY}, name


# -- helpers


def test_the_base_is_the_name_in_braces() -> None:
    assert Queue.queue_base("mails") == "{mails}"
    assert Queue.queue_base("{mails}") == "{mails}"


def test_a_missing_database_is_an_error_and_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch, match=r"there is no database .*none\.db; run `euterpe migrate`"):
        Queue(f"sqlite:///{tmp_path}/none.db")
    assert not list(tmp_path.iterdir())


def test_a_queue_and_its_base_are_the_same_queue(queue: Queue) -> None:
    queue.publish(queue="{mails}", payload={})
    assert isinstance(queue.reserve(queue="mails"), ReservedJob)


def test_now_is_milliseconds_since_the_epoch() -> None:
    assert 1_600_000_000_000 < Queue.now_ms() < 4_000_000_000_000


# -- publish


def test_a_job_has_its_payload_and_every_field(caller: Caller, clock: SettableClock) -> None:
    job_id = caller.publish({"to": "ä@example.org", "list": [1, None]}, gid="g", timeout_ms=7_000)
    job = caller.job()
    assert json.loads(job.payload) == {"to": "ä@example.org", "list": [1, None]}
    assert (job.status, job.job_id, job.attempt, job.gid) == ("JOB", job_id, 1, "g")
    assert job.lock_until_ms == clock.now_ms + 7_000
    assert len(job.lease_token) >= 20
    assert job.lease_token not in repr(job)


def test_an_ungrouped_job_has_an_empty_gid(caller: Caller) -> None:
    caller.publish([1, 2])
    job = caller.job()
    assert (job.gid, job.payload) == ("", "[1,2]")


@pytest.mark.parametrize(
    "payload", ['{"n": 1}', "text", 7, None, True, b"{}", {"n": float("nan")}, {"n": "\0"}, {"n": {1}}]
)
def test_a_payload_that_is_no_object_or_array_is_an_error(queue: Queue, payload: Any) -> None:
    with pytest.raises(InvalidSpec, match="payload"):
        queue.publish(queue=NAME, payload=payload)
    assert queue.reserve(queue=NAME) is None


def _nested(levels: int) -> list[Any]:
    payload: list[Any] = []
    for _ in range(levels - 1):
        payload = [payload]
    return payload


def test_a_payload_has_at_most_100_levels(caller: Caller) -> None:
    """Otherwise `json.loads` in a consumer would raise RecursionError."""
    caller.publish(_nested(100))
    cycle: dict[str, Any] = {}
    cycle["again"] = cycle
    for payload in (_nested(101), {"n": _nested(100)}, _nested(985), cycle):
        with pytest.raises(InvalidSpec, match="payload: must have at most 100 levels"):
            caller.publish(payload)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("queue", value) for value in ("", 7, "a" * 256)),
        *(("job_id", value) for value in ("", "\0")),
        *(("timeout_ms", value) for value in (0, -1, 1.5, "1")),
        *(("max_attempts", value) for value in (0, 1_001, True)),
        ("backoff_ms", -1),
        ("due_ms", -1),
        ("group_limit", -1),
        ("now_ms_override", -1),
        ("gid", "g" * 256),
    ],
)
def test_a_value_that_cannot_be_stored_is_refused_by_its_name(queue: Queue, field: str, value: Any) -> None:
    with pytest.raises(InvalidSpec, match=field):
        queue.publish(**{"queue": NAME, "payload": {}, field: value})


def test_an_id_that_the_caller_chose_is_kept(caller: Caller) -> None:
    assert caller.publish(job_id="invoice 7") == "invoice 7"
    assert caller.job().job_id == "invoice 7"


def test_the_same_id_again_is_the_same_job(caller: Caller) -> None:
    caller.publish({"n": 1}, job_id="a")
    caller.publish({"n": 2}, job_id="a", max_attempts=1)
    job = caller.job()
    assert (job.payload, job.max_attempts) == ('{"n":1}', 3)
    assert caller.nothing()
    caller.queue.ack_success(**lease(job))
    assert caller.publish(job_id="a") == "a"
    assert caller.nothing()


def test_queues_do_not_share_ids(queue: Queue) -> None:
    for name, job_id in (("a/b", "c"), ("a", "b/c")):
        queue.publish(queue=name, payload=[name], job_id=job_id)
    for name in ("a/b", "a"):
        job = queue.reserve(queue=name)
        assert isinstance(job, ReservedJob)
        assert json.loads(job.payload) == [name]


def test_jobs_are_reserved_in_the_order_in_which_they_were_published(caller: Caller) -> None:
    ids = [caller.publish(job_id=f"{9 - number}") for number in range(5)]
    assert [caller.job().job_id for _ in range(5)] == ids


# -- reserve


def test_no_job_is_none(caller: Caller) -> None:
    assert caller.nothing()


def test_a_reserved_job_is_not_reserved_again(caller: Caller, clock: SettableClock) -> None:
    caller.publish()
    caller.job()
    assert caller.nothing()
    clock.advance(TIMEOUT_MS + 1)
    assert caller.nothing()  # the expired lease is not reaped yet


def test_every_reserve_has_a_token_of_its_own(caller: Caller) -> None:
    for _ in range(20):
        caller.publish()
    assert len({caller.job().lease_token for _ in range(20)}) == 20


# -- heartbeat


def test_a_heartbeat_extends_the_lease_from_now(caller: Caller, clock: SettableClock) -> None:
    caller.publish(timeout_ms=2_000)
    job = caller.job()
    clock.advance(500)
    for _ in range(2):  # a second heartbeat does not add the timeout again
        assert caller.queue.heartbeat(**lease(job)) == clock.now_ms + 2_000
    clock.advance(1_999)
    assert caller.queue.reap_expired(queue=NAME) == 0


def test_an_expired_lease_that_nobody_reaped_is_still_held(caller: Caller, clock: SettableClock) -> None:
    caller.publish()
    job = caller.job()
    clock.advance(TIMEOUT_MS + 1)
    assert caller.queue.heartbeat(**lease(job)) == clock.now_ms + TIMEOUT_MS
    assert caller.queue.reap_expired(queue=NAME) == 0


# -- the errors of heartbeat, ack_success and ack_fail

REPORTS = ("heartbeat", "ack_success", "ack_fail")
every_report = pytest.mark.parametrize("report", REPORTS)


@every_report
def test_an_unknown_job_is_not_active(queue: Queue, report: str) -> None:
    with pytest.raises(NotActive, match="NOT_ACTIVE"):
        getattr(queue, report)(queue=NAME, job_id="no such job", lease_token="t")


@every_report
def test_a_waiting_job_is_not_active(caller: Caller, report: str) -> None:
    with pytest.raises(NotActive, match="NOT_ACTIVE"):
        getattr(caller.queue, report)(queue=NAME, job_id=caller.publish(), lease_token="t")


@every_report
@pytest.mark.parametrize("end", ["ack_success", "ack_fail"])
def test_a_finished_job_is_not_active(caller: Caller, report: str, end: str) -> None:
    caller.publish(max_attempts=1)
    job = caller.job()
    getattr(caller.queue, end)(**lease(job))
    before = caller.row(job.job_id)
    with pytest.raises(NotActive, match="NOT_ACTIVE"):
        getattr(caller.queue, report)(**lease(job))
    assert caller.row(job.job_id) == before


@every_report
@pytest.mark.parametrize("backoff_ms", [0, BACKOFF_MS])
def test_a_reaped_job_that_waits_is_not_active(
    caller: Caller, clock: SettableClock, report: str, backoff_ms: int
) -> None:
    caller.publish(backoff_ms=backoff_ms)
    job = caller.job()
    clock.advance(TIMEOUT_MS + 1)
    assert caller.queue.reap_expired(queue=NAME) == 1
    before = caller.row(job.job_id)
    with pytest.raises(NotActive, match="NOT_ACTIVE"):
        getattr(caller.queue, report)(**lease(job))
    assert caller.row(job.job_id) == before


@every_report
def test_a_forged_token_is_a_mismatch(caller: Caller, report: str) -> None:
    caller.publish()
    job = caller.job()
    before = caller.row(job.job_id)
    for forged in ("forged", job.lease_token + "x", job.lease_token[:-1], "ä"):
        with pytest.raises(TokenMismatch, match="TOKEN_MISMATCH"):
            getattr(caller.queue, report)(**lease(job) | {"lease_token": forged})
    assert caller.row(job.job_id) == before


@every_report
def test_the_token_of_an_earlier_claim_is_a_mismatch(
    caller: Caller, clock: SettableClock, report: str
) -> None:
    caller.publish(backoff_ms=0)
    stale = caller.job()
    clock.advance(TIMEOUT_MS + 1)
    caller.queue.reap_expired(queue=NAME)
    owner = caller.job()
    before = caller.row(owner.job_id)
    with pytest.raises(TokenMismatch, match="TOKEN_MISMATCH"):
        getattr(caller.queue, report)(**lease(stale))
    assert caller.row(owner.job_id) == before
    caller.queue.ack_success(**lease(owner))


@every_report
def test_a_report_without_a_token_is_refused(caller: Caller, report: str) -> None:
    caller.publish()
    with pytest.raises(InvalidSpec, match="lease_token"):
        getattr(caller.queue, report)(**lease(caller.job()) | {"lease_token": ""})


@pytest.mark.parametrize("error", [NotActive, TokenMismatch])
def test_the_errors_are_those_that_a_client_of_omniq_catches(error: type[Exception]) -> None:
    assert issubclass(error, RuntimeError)


# -- acks


def test_an_acked_job_never_comes_back(caller: Caller, clock: SettableClock) -> None:
    caller.publish()
    job = caller.job()
    caller.queue.ack_success(**lease(job))
    clock.advance(10 * TIMEOUT_MS)
    assert caller.queue.reap_expired(queue=NAME) == caller.queue.promote_delayed(queue=NAME) == 0
    assert caller.nothing()
    row = caller.row(job.job_id)
    assert (row.status, row.worker_id, row.lease_expires_at) == ("succeeded", None, None)


def test_a_failed_attempt_is_retried_after_the_backoff(caller: Caller, clock: SettableClock) -> None:
    caller.publish(backoff_ms=BACKOFF_MS, max_attempts=2)
    due_ms = clock.now_ms + BACKOFF_MS
    assert caller.queue.ack_fail(**lease(caller.job()), error="no route") == ("RETRY", due_ms)
    clock.advance(BACKOFF_MS - 1)
    assert caller.queue.promote_delayed(queue=NAME) == 0
    assert caller.nothing()
    clock.advance(1)
    assert caller.queue.promote_delayed(queue=NAME) == 1
    job = caller.job()
    assert job.attempt == 2
    assert caller.row(job.job_id).last_error == "no route"


def test_the_last_attempt_fails_for_good(caller: Caller, clock: SettableClock) -> None:
    caller.publish(max_attempts=2, backoff_ms=0)
    assert caller.queue.ack_fail(**lease(caller.job())) == ("RETRY", clock.now_ms)
    last = caller.job()
    assert caller.queue.ack_fail(**lease(last), error="x" * 5_000 + "\0") == ("FAILED", None)
    assert caller.nothing()
    row = caller.row(last.job_id)
    assert (row.status, len(row.last_error)) == ("failed", 1_000)


# -- maintenance


def test_a_job_with_a_due_time_waits_for_it(caller: Caller, clock: SettableClock) -> None:
    caller.publish(due_ms=clock.now_ms + 60_000, job_id="later")
    caller.publish(due_ms=clock.now_ms - 60_000, job_id="past")
    assert caller.job().job_id == "past"
    clock.advance(60_000)
    assert caller.nothing()  # `reserve` does not promote due jobs
    assert caller.queue.promote_delayed(queue=NAME) == 1
    assert caller.job().job_id == "later"


def test_promotion_has_a_limit_and_takes_the_first_due_first(caller: Caller, clock: SettableClock) -> None:
    for ms in (3, 1, 2):
        caller.publish(due_ms=clock.now_ms + ms, job_id=str(ms))
    clock.advance(10)
    assert caller.queue.promote_delayed(queue="other") == 0
    assert caller.queue.promote_delayed(queue=NAME, max_promote=2) == 2
    assert [caller.job().job_id for _ in range(2)] == ["1", "2"]
    assert caller.queue.promote_delayed(queue=NAME) == 1


def test_an_expired_lease_is_reaped_and_its_attempt_counts(caller: Caller, clock: SettableClock) -> None:
    caller.publish(max_attempts=2)
    caller.job()
    clock.advance(TIMEOUT_MS)
    assert caller.queue.reap_expired(queue=NAME) == 0
    clock.advance(1)
    assert caller.queue.reap_expired(queue=NAME) == 1
    clock.advance(BACKOFF_MS)
    assert caller.queue.promote_delayed(queue=NAME) == 1
    last = caller.job()
    assert last.attempt == 2
    clock.advance(TIMEOUT_MS + 1)
    assert caller.queue.reap_expired(queue=NAME) == 1
    row = caller.row(last.job_id)
    assert (row.status, row.attempt_count) == ("failed", 2)
    assert "lease expired" in row.last_error


def test_reaping_has_a_limit_and_stays_in_its_queue(caller: Caller, clock: SettableClock) -> None:
    for _ in range(3):
        caller.publish()
        caller.job()
    clock.advance(TIMEOUT_MS + 1)
    assert caller.queue.reap_expired(queue="other") == 0
    assert caller.queue.reap_expired(queue=NAME, max_reap=2) == 2
    assert caller.queue.reap_expired(queue=NAME) == 1


def test_a_caller_may_name_the_time_of_a_call(caller: Caller, clock: SettableClock) -> None:
    now = clock.now_ms + 1_000_000
    caller.publish(due_ms=now)
    assert caller.queue.promote_delayed(queue=NAME, now_ms_override=now - 1) == 0
    assert caller.queue.promote_delayed(queue=NAME, now_ms_override=now) == 1
    job = caller.job(now_ms_override=now)
    assert job.lock_until_ms == now + TIMEOUT_MS
    assert caller.queue.heartbeat(**lease(job), now_ms_override=now + 5) == now + 5 + TIMEOUT_MS
    assert caller.queue.reap_expired(queue=NAME) == 0
    answer = caller.queue.ack_fail(**lease(job), now_ms_override=now + 7)
    assert answer == ("RETRY", now + 7 + BACKOFF_MS)
    clock.advance(1)
    caller.publish(job_id="after", now_ms_override=0)
    assert caller.row("after").created_at == clock.now_ms


def test_finished_jobs_are_kept_for_a_while(caller: Caller, clock: SettableClock) -> None:
    for end in (caller.queue.ack_success, caller.queue.ack_fail):
        caller.publish(max_attempts=1)
        end(**lease(caller.job()))
    caller.publish(job_id="waits")
    clock.advance(1_000)
    assert caller.queue.forget_finished(older_than_ms=1_000) == 0
    assert caller.queue.forget_finished(older_than_ms=999, max_forget=1) == 1
    assert caller.queue.forget_finished(older_than_ms=999) == 1
    assert caller.queue.forget_finished(older_than_ms=0) == 0
    assert caller.job().job_id == "waits"


# -- pauses


def test_a_paused_queue_grants_no_job_and_moves_none(caller: Caller, clock: SettableClock) -> None:
    caller.publish(job_id="running")
    running = caller.job()
    caller.publish(job_id="waiting")
    assert caller.queue.pause(queue=NAME) == "OK"
    assert caller.queue.pause(queue=NAME) == "OK"
    assert caller.queue.is_paused(queue=NAME)
    assert caller.queue.reserve(queue=NAME) == Paused("PAUSED")
    assert caller.row("waiting").lane == "ready"
    assert caller.queue.heartbeat(**lease(running)) == clock.now_ms + TIMEOUT_MS
    caller.queue.ack_success(**lease(running))
    assert caller.queue.resume(queue=NAME) == 1
    assert caller.queue.resume(queue=NAME) == 0
    assert not caller.queue.is_paused(queue=NAME)
    assert caller.job().job_id == "waiting"


def test_a_paused_queue_without_jobs_says_so(caller: Caller) -> None:
    caller.queue.pause(queue=NAME)
    assert isinstance(caller.queue.reserve(queue=NAME), Paused)
    assert caller.queue.reserve(queue="other") is None
