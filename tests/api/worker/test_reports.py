"""Heartbeats, statuses and ends of remote workers, over HTTP."""

from typing import Any

import pytest

from euterpe.store.store import Store
from tests.api.worker.conftest import ContractWorker, Document, lease, message
from tests.store.attempts import check_path
from tests.store.jobs import enqueue


@pytest.fixture
def claimed(store: Store, worker: ContractWorker) -> Document:
    enqueue(store)
    return worker.claim()


def test_a_worker_that_knows_only_the_contract_does_a_whole_job(store: Store, worker: ContractWorker) -> None:
    """The calls (claim, heartbeat, and an end for each of two jobs) have only the fields of the contract."""
    done, failed = enqueue(store, 2)
    first = worker.ok("claim", streams=["default"], max_wait_ms=1_000)
    assert worker.ok("heartbeat", **lease(first))["ok"] is True
    result = {"outputs": [], "timings": {"total_ms": 3}, "artifacts": ["s3://out/a/report.json"]}
    assert worker.ok("complete", **message(first), result=result)["ack"] is True
    second = worker.ok("claim", streams=["default"], max_wait_ms=1_000)
    error = {"code": "E_OOM", "message": "out of memory", "stack": "at main()", "retryable": False}
    end = worker.ok("fail", **message(second), error=error)
    assert [end[name] for name in ("ok", "ack", "requeued", "dlq")] == [True, True, False, True]
    assert [first["job_id"], second["job_id"]] == [done, failed]
    assert store.jobs.get(done).status == "succeeded"
    last_error = store.jobs.get(failed).last_error or {}
    assert last_error["message"] == "E_OOM: out of memory"
    check_path(store, done)
    check_path(store, failed)


def test_further_keys_of_a_result_are_kept_with_the_attempt(
    store: Store, worker: ContractWorker, claimed: Document
) -> None:
    result = {"outputs": [], "host": "gpu-7"}
    worker.ok("complete", **message(claimed), result=result)
    (attempt,) = store.jobs.attempts(claimed["job_id"])
    assert attempt.result == {"host": "gpu-7"}


def test_the_message_may_be_an_object(worker: ContractWorker, claimed: Document) -> None:
    """The contract writes `stream: name, message_id`, which can mean two fields or one object."""
    stream = {"name": claimed["stream"], "message_id": claimed["message_id"]}
    names = ("job_id", "attempt_id", "lease_token")
    fields: Any = {name: claimed[name] for name in names}
    assert worker.ok("complete", **fields, stream=stream, result={})["ok"]


def test_a_result_has_256_kib_at_most(store: Store, worker: ContractWorker, claimed: Document) -> None:
    for size, status in ((262_144, 413), (600_000, 413), (261_000, 200)):
        answer = worker.call("complete", **message(claimed), result={"report": "x" * size})
        assert answer.status_code == status, answer.text
        if status == 413:
            assert answer.json()["code"] == "request_too_large"
            assert store.jobs.get(claimed["job_id"]).status == "claimed"


def test_a_stack_is_kept_up_to_16_kib_and_only_with_the_attempt(
    store: Store, worker: ContractWorker, claimed: Document
) -> None:
    stack = "canary-in-the-stack " * 5_000
    error = {"code": "internal_error", "message": "it broke", "stack": stack, "retryable": True}
    worker.ok("fail", **message(claimed), error=error)
    (attempt,) = store.jobs.attempts(claimed["job_id"])
    assert attempt.error is not None
    assert 16_000 < len(attempt.error["stack"]) <= 16 * 1024 + 3
    shown = [store.jobs.get(claimed["job_id"]), store.jobs.events(claimed["job_id"])]
    assert "canary-in-the-stack" not in repr(shown)


def test_each_lease_of_a_heartbeat_has_its_own_answer(store: Store, worker: ContractWorker) -> None:
    enqueue(store, 3)
    jobs = worker.claim(max_jobs=3)["jobs"]
    worker.ok("complete", **message(jobs[1]), result={})
    forged = {**lease(jobs[2]), "lease_token": "x"}
    answer = worker.ok("heartbeat", leases=[lease(jobs[0]), lease(jobs[1]), forged])
    assert [row["job_id"] for row in answer["leases"]] == [job["job_id"] for job in jobs]
    assert [row["ok"] for row in answer["leases"]] == [True, False, False]
    assert [row.get("code") for row in answer["leases"]] == [None, "lease_lost", "invalid_lease_token"]
    assert answer["leases"][0]["credential_version"] == 1


def test_a_cancel_and_newer_credentials_are_told_with_the_heartbeat(
    store: Store, worker: ContractWorker, claimed: Document
) -> None:
    store.credentials.replace(claimed["job_id"], "r1", b"{}")
    store.control.cancel(claimed["job_id"])
    answer = worker.ok("heartbeat", **lease(claimed), progress=12.5)
    assert (answer["cancel_requested"], answer["credential_version"]) == (True, 2)
    assert store.jobs.get(claimed["job_id"]).progress == 12.5


@pytest.mark.parametrize(
    ("name", "fields", "loc"),
    [
        ("heartbeat", {"progress": 101}, ["progress"]),
        ("heartbeat", {"progress": "5"}, ["progress"]),
        ("advance", {"status": "claimed"}, ["status"]),
        ("advance", {"status": "succeeded"}, ["status"]),
        ("advance", {"status": "fetching", "warnings": [{}] * 101}, ["warnings"]),
        ("complete", {"result": None}, ["result"]),
        ("complete", {"result": {"outputs": {}}}, ["result", "outputs"]),
        ("complete", {"result": {"outputs": [], "warnings": [{}] * 101}}, ["result", "warnings"]),
        ("fail", {"error": {"message": "x"}}, ["error", "code"]),
        ("fail", {"error": {"code": "x"}, "retry_class": "never"}, ["retry_class"]),
        ("release", {"delay_ms": -1}, ["delay_ms"]),
        ("release", {"delay_ms": 3_600_001}, ["delay_ms"]),
        ("release", {"reason": {"code": 5}}, ["reason", "code"]),
    ],
)
def test_an_invalid_report_is_refused_and_changes_nothing(
    worker: ContractWorker, claimed: Document, name: str, fields: Document, loc: list[str]
) -> None:
    answer = worker.call(name, **{**message(claimed), **fields})
    assert answer.status_code == 422, answer.text
    assert [error["loc"] for error in answer.json()["errors"]] == [loc]
    assert worker.ok("advance", **message(claimed), status="fetching")["status"] == "fetching"


def test_a_release_may_ask_for_a_pause(store: Store, worker: ContractWorker, claimed: Document) -> None:
    answer = worker.ok("release", **message(claimed), delay_ms=60_000)
    assert (answer["requeued"], answer["charged"], answer["status"]) == (True, False, "queued")
    assert worker.claim(max_wait_ms=0) == {"claimed": False}
    assert store.jobs.get(claimed["job_id"]).attempt_count == 0


def test_the_owner_that_reports_lease_expired_gets_the_answer_of_the_owner(
    store: Store, worker: ContractWorker
) -> None:
    (job_id,) = enqueue(store)
    claimed = worker.claim()
    error = {"code": "lease_expired", "message": "x", "retryable": True}
    answer = worker.call("fail", **message(claimed), error=error)
    assert answer.status_code == 200, answer.text
    assert answer.json()["charged"]
    (attempt,) = store.jobs.attempts(job_id)
    assert attempt.outcome == "requeued"
    assert attempt.error is not None
    assert attempt.error["code"] == "internal_error"


def test_a_heartbeat_with_one_bad_figure_extends_the_other_leases(
    store: Store, worker: ContractWorker
) -> None:
    """A compromised ffmpeg chooses the speed that it reports."""
    enqueue(store, 2)
    one, two = worker.claim(max_jobs=2)["jobs"]
    leases = [{**lease(one), "progress": 5, "speed": 999_999_999.5}, lease(two)]
    answer = worker.call("heartbeat", leases=leases)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "outputs",
    [[{"foo": 1}], [{"name": 5, "url": None}], [{}], [{"name": "a", "url": "https://h/a?signature=s3cret"}]],
)
def test_outputs_of_another_shape_are_refused(
    store: Store, worker: ContractWorker, outputs: list[Document]
) -> None:
    enqueue(store)
    answer = worker.call("complete", **message(worker.claim()), result={"outputs": outputs})
    assert answer.status_code == 422, answer.text
    assert "s3cret" not in answer.text
