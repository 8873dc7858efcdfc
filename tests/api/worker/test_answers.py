"""Each cell of the table of answers in the worker contract is tested over HTTP, on every engine."""

from typing import Any

import httpx
import pytest

from euterpe.control.lease_tokens import LeaseClaim, LeaseKey, LeaseTokens
from euterpe.domain.states import JobStatus
from euterpe.store.engine.ids import new_id
from euterpe.store.errors import StoreUnavailable
from euterpe.store.store import Store
from tests import engines
from tests.api.serving import Served
from tests.api.worker.conftest import LEASE_MS, ContractWorker, Document, lease, message
from tests.clock import SettableClock
from tests.store.attempts import check_path
from tests.store.jobs import SPEC, claim_one, enqueue

RESULT = {"outputs": [{"name": "mp4", "url": "s3://out/a/mp4.mp4"}], "timings": {"total_ms": 5}}
FINAL = {"code": "source_not_media", "message": "no", "stack": "Traceback", "retryable": False}
AGAIN = {"code": "source_unreachable", "message": "no", "stack": "Traceback", "retryable": True}
BODIES: dict[str, Document] = {"complete": {"result": RESULT}, "fail": {"error": AGAIN}}
LONG_MS = 40 * 24 * 3600 * 1000


@pytest.fixture(params=engines.ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def claimed(store: Store, worker: ContractWorker) -> Document:
    enqueue(store)
    return worker.claim()


def end(worker: ContractWorker, name: str, claimed: Document, **fields: Any) -> httpx.Response:
    return worker.call(name, **{**message(claimed), **BODIES[name], **fields})


def assert_refused(
    answer: httpx.Response, status: int, code: str, *, ack: bool, outcome: str | None = None
) -> None:
    assert answer.status_code == status, answer.text
    document = answer.json()
    assert (document["code"], document["ok"], document["ack"]) == (code, False, ack)
    assert document.get("outcome") == outcome
    assert answer.headers["euterpe-protocol"] == "1"


def test_the_owner_completes(store: Store, worker: ContractWorker, claimed: Document) -> None:
    """A third-party worker does not report its phases, so the server also writes the missing statuses."""
    answer = end(worker, "complete", claimed).json()
    assert (answer["ok"], answer["ack"], answer["status"]) == (True, True, "succeeded")
    assert store.jobs.get(claimed["job_id"]).outputs == RESULT["outputs"]
    path = check_path(store, claimed["job_id"])
    assert path == ["claimed", "fetching", "processing", "uploading", "succeeded"]


def test_the_owner_fails_and_the_job_is_queued_again(worker: ContractWorker, claimed: Document) -> None:
    answer = end(worker, "fail", claimed).json()
    assert [answer[name] for name in ("ok", "ack", "requeued", "dlq")] == [True, True, True, False]
    assert answer["status"] == "queued"
    assert answer["next_attempt_at"]


def test_the_owner_fails_for_good(worker: ContractWorker, claimed: Document) -> None:
    answer = end(worker, "fail", claimed, error=FINAL).json()
    assert [answer[name] for name in ("ok", "ack", "requeued", "dlq")] == [True, True, False, True]
    assert answer["status"] == "failed"


def test_the_owner_extends_its_lease(
    store: Store, worker: ContractWorker, claimed: Document, clock: SettableClock
) -> None:
    clock.advance(1_000)
    answer = worker.ok("heartbeat", **lease(claimed))
    assert answer["ok"]
    assert answer["lease_expires_at"] > claimed["lease_expires_at"]
    assert store.jobs.get(claimed["job_id"]).lease_expires_at == clock.now_ms + LEASE_MS


@pytest.mark.parametrize(
    ("name", "other"),
    [("complete", {"result": {"outputs": []}}), ("fail", {"error": FINAL})],
)
def test_a_repeated_end_has_its_first_answer_also_with_another_body(
    worker: ContractWorker, claimed: Document, name: str, other: Document
) -> None:
    first = end(worker, name, claimed)
    assert first.status_code == 200
    assert end(worker, name, claimed).json() == first.json()
    assert end(worker, name, claimed, **other).json() == first.json()


def test_a_failure_is_repeated_while_a_later_attempt_runs_and_after_its_dead_letter(
    store: Store, worker: ContractWorker, claimed: Document, clock: SettableClock
) -> None:
    first, attempt = end(worker, "fail", claimed).json(), claimed
    for _ in range(2):
        clock.advance(LONG_MS)
        attempt = worker.claim()
        assert end(worker, "fail", claimed).json() == first
        last = end(worker, "fail", attempt).json()
    assert (last["status"], last["dlq"]) == ("dead_letter", True)
    assert end(worker, "fail", claimed).json() == first
    assert end(worker, "fail", attempt).json() == last
    assert store.jobs.get(claimed["job_id"]).attempt_count == 3


@pytest.mark.parametrize(
    ("first", "second", "outcome"), [("complete", "fail", "succeeded"), ("fail", "complete", "requeued")]
)
def test_an_attempt_that_ended_the_other_way_is_refused(
    worker: ContractWorker, claimed: Document, first: str, second: str, outcome: str
) -> None:
    assert end(worker, first, claimed).status_code == 200
    assert_refused(end(worker, second, claimed), 409, "attempt_ended", ack=True, outcome=outcome)
    assert_refused(worker.call("heartbeat", **lease(claimed)), 409, "lease_lost", ack=True)


@pytest.mark.parametrize("taken_over", [False, True])
def test_a_swept_lease_is_lost(
    store: Store, worker: ContractWorker, claimed: Document, clock: SettableClock, *, taken_over: bool
) -> None:
    clock.advance(LEASE_MS + 1)
    store.inbox.sweep()
    if taken_over:
        clock.advance(LONG_MS)
        claim_one(store, "another")
    for answer in (
        end(worker, "complete", claimed),
        end(worker, "fail", claimed),
        worker.call("heartbeat", **lease(claimed)),
        worker.call("advance", **message(claimed), status="fetching"),
        worker.call("release", **message(claimed)),
        worker.call("refresh", **lease(claimed), reason="forbidden"),
        worker.call("credentials", **lease(claimed), public_key=KEY),
    ):
        assert_refused(answer, 409, "lease_lost", ack=True)


KEY = "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo"


@pytest.mark.parametrize("name", BODIES)
def test_a_lease_that_ran_out_but_was_not_swept_belongs_to_its_worker(
    worker: ContractWorker, claimed: Document, clock: SettableClock, name: str
) -> None:
    clock.advance(LEASE_MS * 60)
    assert worker.ok("heartbeat", **lease(claimed))["ok"]
    clock.advance(LEASE_MS * 60)
    assert end(worker, name, claimed).status_code == 200


def test_a_token_of_another_key_or_attempt_and_a_forged_one_are_refused(
    store: Store, served: Served, worker: ContractWorker, claimed: Document
) -> None:
    other = ContractWorker(served, "worker-2")
    forged = claimed["lease_token"][:-1] + ("A" if claimed["lease_token"][-1] != "A" else "B")
    for who, fields in (
        (other, {}),
        (worker, {"lease_token": forged}),
        (worker, {"lease_token": "x"}),
        (worker, {"attempt_id": new_id()}),
        (worker, {"job_id": new_id()}),
    ):
        for name in BODIES:
            assert_refused(end(who, name, {**claimed, **fields}), 403, "invalid_lease_token", ack=False)
        if "attempt_id" not in fields:
            beat = who.call("heartbeat", **lease({**claimed, **fields}))
            assert_refused(beat, 403, "invalid_lease_token", ack=False)
    assert store.jobs.get(claimed["job_id"]).status == JobStatus.CLAIMED


def test_a_pruned_job_is_gone(store: Store, worker: ContractWorker, clock: SettableClock) -> None:
    enqueue(store, spec={name: value for name, value in SPEC.items() if name != "status_webhook_url"})
    claimed = worker.claim()
    end(worker, "complete", claimed)
    clock.advance(1_000)
    list(store.prune.run(older_than_ms=0))
    for name in BODIES:
        assert_refused(end(worker, name, claimed), 410, "pruned", ack=True)
    assert_refused(worker.call("heartbeat", **lease(claimed)), 410, "pruned", ack=True)


def test_a_job_that_never_existed_is_not_found(store: Store, worker: ContractWorker) -> None:
    """A worker can have a valid token for an unknown job if the database was lost after the claim."""
    keys = [LeaseKey(key.key_id, key.key) for key in store.service_secrets.lease_keys()]
    claim = LeaseClaim(new_id(), new_id(), 1)
    unknown = {
        "job_id": claim.job_id,
        "attempt_id": claim.attempt_id,
        "lease_token": LeaseTokens(lambda: keys).mint(claim, worker.id),
        "stream": "default",
        "message_id": "0-x",
    }
    for name in BODIES:
        assert_refused(end(worker, name, unknown), 404, "not_found", ack=True)
    assert_refused(worker.call("heartbeat", **lease(unknown)), 404, "not_found", ack=True)


def test_a_stopping_api_asks_to_come_again(served: Served, worker: ContractWorker) -> None:
    served.end_waits()
    answer = worker.call("claim", streams=["default"])
    assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
    assert int(answer.headers["retry-after"]) >= 1


def test_without_the_database_the_worker_is_asked_to_come_again(
    store: Store, worker: ContractWorker, claimed: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise StoreUnavailable("connection to db.internal refused")

    monkeypatch.setattr(store.database, "transaction", away)
    for answer in (
        end(worker, "complete", claimed),
        end(worker, "fail", claimed),
        worker.call("heartbeat", **lease(claimed)),
    ):
        assert answer.status_code == 503, answer.text
        assert "ack" not in answer.json()
        assert "db.internal" not in answer.text
        assert int(answer.headers["retry-after"]) >= 1
