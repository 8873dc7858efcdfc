"""Limits on the time, attempts and priority of a job, for all requesters and for a single requester."""

from euterpe.api.backpressure import ApiLimits
from euterpe.domain.job_limits import JobLimits
from euterpe.store.queue.fairness.requester_limits import LimitName
from tests.api.serving import Served, assert_problem, field_errors, serving
from tests.domain.documents import MINIMAL


def test_a_job_may_not_ask_for_more_than_its_requester_is_allowed(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    limits: dict[LimitName, int | None] = {"max_timeout_seconds": 600, "max_attempts": 2, "max_priority": 60}
    on_every_engine.store.requester_limits.set(requester.id, limits)
    too_much = {"timeout_seconds": 601, "max_attempts": 3, "priority": 61}
    refused = requester.post({**MINIMAL, **too_much})
    assert_problem(refused, 422, "invalid_request")
    assert field_errors(refused).keys() == {(name,) for name in too_much}
    accepted = requester.post({**MINIMAL, "timeout_seconds": 600})
    assert accepted.status_code == 202
    assert accepted.json()["max_attempts"] == 2


def test_a_plain_request_gets_as_much_as_its_requester_is_allowed(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    limits: dict[LimitName, int | None] = {"max_timeout_seconds": 600, "max_priority": 40}
    on_every_engine.store.requester_limits.set(requester.id, limits)
    accepted = requester.post(MINIMAL)
    assert (accepted.status_code, accepted.json()["priority"]) == (202, 40)
    job = on_every_engine.store.jobs.get(accepted.json()["job_id"])
    assert (job.spec["timeout_seconds"], job.spec["priority"]) == (600, 40)


def test_the_settings_limit_everybody(on_every_engine: Served) -> None:
    limits = ApiLimits(job=JobLimits(max_priority=10))
    with serving(on_every_engine.store, limits=limits) as served:
        requester = served.requester()
        assert field_errors(requester.post({**MINIMAL, "priority": 11})).keys() == {("priority",)}
        assert requester.post({**MINIMAL, "priority": 10}).status_code == 202


def test_a_request_that_was_accepted_keeps_its_answer_under_new_limits(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    urgent = {**MINIMAL, "priority": 90}
    first = requester.post(urgent, idempotency_key="k")
    on_every_engine.store.requester_limits.set(requester.id, {"max_priority": 50})
    with serving(on_every_engine.store) as fresh:
        again = requester.http.post(f"{fresh.url}/transcode", json=urgent, headers={"idempotency-key": "k"})
    assert (again.status_code, again.json()) == (202, first.json())
