"""A synthetic history in the store of each engine, as operators, requesters and analytics see it."""

import json
from typing import Any

import pyarrow as pa
import pytest

from euterpe.analytics.errors import AnalyticsError
from euterpe.analytics.source.reading import read_part
from euterpe.analytics.tables import HISTORY
from euterpe.domain.canonical import join_secrets
from euterpe.domain.profiles import built_in_profiles
from euterpe.domain.states import FINISHED, JobStatus, Lane, OutboxStatus
from euterpe.domain.status import status_document
from euterpe.store.history.feed import Cut, HistoryFeed
from euterpe.store.store import Store
from euterpe.synthesize.customers import customer, named
from euterpe.synthesize.documents import spec_document
from euterpe.synthesize.history_plan import DAY_MS, HistoryPlan
from euterpe.synthesize.store import synthesize_store
from tests.clock import SettableClock
from tests.service.store.processes.invariants import check_events, check_integrity, read_lives
from tests.store.jobs import enqueue
from tests.synthesize.made_history import UNTIL_MS, Rows, by, history, rows

PLAN = HistoryPlan(jobs=600, seed=21, until_ms=UNTIL_MS)
# The first four requesters want no progress events, because the invariants of the store do not cover these
# events.
QUIET = HistoryPlan(jobs=600, seed=22, until_ms=UNTIL_MS, requesters=4)


@pytest.fixture
def filled(store: Store) -> Store:
    assert synthesize_store(store.database, PLAN, lambda _: None) == PLAN.jobs
    return store


def test_the_invariants_of_the_store_hold(store: Store) -> None:
    synthesize_store(store.database, QUIET, lambda _: None)
    lives = read_lives(store)
    assert len(lives) == QUIET.jobs
    check_events(lives)
    check_integrity(store)


def test_a_database_with_real_jobs_is_refused(store: Store) -> None:
    enqueue(store, requester_id="newsroom")
    with pytest.raises(AnalyticsError, match="the database has jobs of newsroom"):
        synthesize_store(store.database, PLAN, lambda _: None)
    assert len(store.jobs.page(limit=10)) == 1


def test_each_job_can_be_shown_as_it_is(filled: Store) -> None:
    expected = {row["job_id"]: row for row in history(PLAN, "jobs")}
    shown = filled.jobs.page(limit=PLAN.jobs)
    assert [job.job_id for job in shown] == sorted(expected, reverse=True)
    for job in shown:
        document, row = status_document(job), expected[job.job_id]
        assert document["status"] == row["status"]
        assert len(document["outputs"]) == row["outputs"]
        assert (document["error"] or {}).get("code") == row["error_code"]
        assert sum(output["size_bytes"] for output in document["outputs"]) == (row["output_bytes"] or 0)


def test_events_are_what_a_webhook_would_have_carried(filled: Store) -> None:
    expected = by("job_id", history(PLAN, "events"))
    for job in history(PLAN, "jobs")[-120:]:
        events = filled.jobs.events(job["job_id"])
        assert [event.event_id for event in events] == [one["event_id"] for one in expected[job["job_id"]]]
        for event in events:
            body = json.loads(event.payload)
            same = ("event_id", "sequence", "type", "job_id")
            assert {name: body[name] for name in same} == {name: getattr(event, name) for name in same}
            assert (body["error"] is not None) == (body["status"] in ("failed", "dead_letter"))
            assert bool(body["outputs"]) == (body["status"] == "succeeded")
        if events:
            assert body["attempt_count"] == job["attempt_count"]


def test_the_outbox_agrees_with_its_deliveries(filled: Store) -> None:
    tries = by("event_id", history(PLAN, "deliveries"))
    shown = filled.jobs.deliveries(limit=5_000)
    assert {event.status for event in shown} >= {"delivered", "dead_letter", "skipped"}
    for event in shown:
        own = tries[event.event_id]
        assert event.attempt_count == len(own)
        if own:
            assert event.status == own[-1]["outcome"]
        else:
            assert event.status in (OutboxStatus.PENDING, OutboxStatus.SKIPPED)
    dead = next(event for event in shown if event.status == OutboxStatus.DEAD_LETTER)
    log = filled.jobs.delivery_log(dead.event_id)
    assert [one.claim_version for one in log] == list(range(1, 13))
    assert log[-1].error == dead.last_error
    assert "all 12 attempts are spent" in (dead.last_error or "")


def test_an_unfinished_job_is_leased_or_queued(filled: Store) -> None:
    running = [job for job in filled.jobs.page(limit=PLAN.jobs) if job.status not in FINISHED]
    assert running
    for job in running:
        leased = job.lane == Lane.LEASED
        assert leased == (job.status != JobStatus.QUEUED)
        assert (job.worker_id is not None) == leased
        assert job.group_id is None


def test_a_worker_can_claim_unfinished_jobs(filled: Store, clock: SettableClock) -> None:
    left = [job.job_id for job in filled.jobs.page(limit=PLAN.jobs) if job.status not in FINISHED]
    filled.inbox.sweep()  # by the clock of the store, all leases of the history have expired
    clock.advance(DAY_MS)
    claimed = filled.inbox.claim("w1", 100, queues=("default", "express", "bulk"))
    assert claimed
    assert {job.job_id for job in claimed} <= set(left)


def test_specs_are_those_that_a_requester_could_send() -> None:
    known = [job for job in history(PLAN, "jobs") if job["profile"] in (None, *built_in_profiles())]
    for job in known:
        document = spec_document(job, customer(0))
        spec = join_secrets(document, None)
        assert (spec.profile, spec.queue, spec.max_attempts) == (
            job["profile"],
            job["queue"],
            job["max_attempts"],
        )


def test_analytics_reads_the_same_rows_from_the_store_as_a_lake_gets(filled: Store) -> None:
    for name in HISTORY:
        expected = sorted(map(_without_metadata, history(PLAN, name)), key=str)
        assert sorted(map(_without_metadata, _read(filled, name)), key=str) == expected


def _read(store: Store, name: str) -> Rows:
    source, table = HistoryFeed(store.database), HISTORY[name]
    parts = source.ranges(name, Cut(), source.now().cut, 10_000)
    batches = [batch for part in parts for batch in read_part(source, name, part, table.columns)]
    return rows(pa.Table.from_batches(batches))


def _without_metadata(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row without its metadata, which are null in the generated history, and `{}` in the store."""
    return {name: value for name, value in row.items() if name != "metadata"}


def test_running_the_same_plan_again_adds_nothing(filled: Store) -> None:
    seen: list[int] = []
    assert synthesize_store(filled.database, PLAN, seen.append) == 0
    assert seen == [500, 600]


def test_a_killed_run_continues_where_it_stopped(store: Store) -> None:
    class Killed(Exception): ...

    def kill(jobs: int) -> None:
        raise Killed(jobs)

    with pytest.raises(Killed, match="500"):
        synthesize_store(store.database, PLAN, kill)
    assert synthesize_store(store.database, PLAN, lambda _: None) == 100
    assert len(store.jobs.page(limit=PLAN.jobs + 1)) == PLAN.jobs


def test_its_requesters_have_names_and_no_keys(filled: Store) -> None:
    found = {row.requester_id: (row.name, row.valid_keys) for row in filled.requesters.all()}
    assert found == {key: (name, 0) for key, name in named(PLAN.requesters)}
