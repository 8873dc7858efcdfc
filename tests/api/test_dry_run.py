"""POST /transcode?dry_run=true answers with a plan, and stores nothing."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.scopes import Scope
from euterpe.media.errors import MediaError
from euterpe.store.store import Store
from euterpe.worker.dry_run import DryRunTimeout
from tests.api.serving import (
    FORBIDDEN_BUCKET,
    PLAN,
    Requester,
    ScriptedDryRun,
    Served,
    assert_problem,
    field_errors,
    serving,
)
from tests.domain.documents import MINIMAL


@pytest.fixture
def dry_run() -> Iterator[ScriptedDryRun]:
    yield (made := ScriptedDryRun())
    made.stop()


@pytest.fixture
def served(sqlite_store: Store, dry_run: ScriptedDryRun) -> Iterator[Served]:
    with serving(sqlite_store, dry_run=dry_run) as served:
        yield served


def ask(requester: Requester, wanted: str = "true", **fields: object) -> httpx.Response:
    headers = {"idempotency-key": "one"}
    url = f"/transcode?dry_run={wanted}"
    return requester.http.post(url, json={**MINIMAL, **fields}, headers=headers)


def test_the_plan_is_the_answer_and_no_job_is_stored(requester: Requester, dry_run: ScriptedDryRun) -> None:
    answer = ask(requester)
    assert (answer.status_code, answer.json()) == (200, PLAN)
    assert len(dry_run.specs) == 1
    assert requester.http.get("/transcode/jobs").json()["jobs"] == []
    # The dry run did not store its idempotency key either.
    job = requester.post(idempotency_key="one")
    assert job.status_code == 202
    assert "idempotent-replayed" not in job.headers


def test_false_submits_the_job(requester: Requester, dry_run: ScriptedDryRun) -> None:
    assert ask(requester, "false").status_code == 202
    assert dry_run.specs == []


def test_an_invalid_job_has_all_its_errors(requester: Requester, dry_run: ScriptedDryRun) -> None:
    found = field_errors(ask(requester, priority=101, output={"url": FORBIDDEN_BUCKET}))
    assert ("priority",) in found
    assert ("output", "url") in field_errors(ask(requester, output={"url": FORBIDDEN_BUCKET}))
    assert ("dry_run",) in field_errors(ask(requester, "yes"))
    misspelled = requester.http.post("/transcode?dryrun=true", json=MINIMAL)
    assert ("query",) in field_errors(misspelled)
    assert requester.http.get("/transcode/jobs").json()["jobs"] == []
    wrong_key = requester.http.post(
        "/transcode?dry_run=true", json=MINIMAL, headers={"idempotency-key": "x" * 256}
    )
    assert ("idempotency_key",) in field_errors(wrong_key)
    assert dry_run.specs == []


def test_the_limits_of_the_requester_count(
    sqlite_store: Store, requester: Requester, dry_run: ScriptedDryRun
) -> None:
    sqlite_store.requester_limits.set(requester.id, {"max_priority": 10})
    assert ("priority",) in field_errors(ask(requester, priority=11))
    assert dry_run.specs == []


def test_the_error_of_the_job_is_the_detail(requester: Requester, dry_run: ScriptedDryRun) -> None:
    dry_run.error = MediaError(ErrorCode.SOURCE_NOT_MEDIA, "the source is not a media file")
    answer = ask(requester)
    assert_problem(answer, 422, "dry_run_failed")
    assert answer.json()["detail"] == "source_not_media: the source is not a media file"
    dry_run.error = DryRunTimeout("the source could not be read within 30 s")
    assert_problem(ask(requester), 422, "dry_run_timeout")


def test_a_fault_of_the_process_does_not_blame_the_source(
    requester: Requester, dry_run: ScriptedDryRun
) -> None:
    dry_run.error = MediaError(ErrorCode.SANDBOX_FAILED, "/srv/work: no such file")
    answer = ask(requester)
    assert_problem(answer, 503, "dry_run_unavailable")
    assert "/srv" not in answer.text
    dry_run.error = FileNotFoundError(2, "No such file or directory", "/srv/work")
    answer = ask(requester)
    assert_problem(answer, 503, "dry_run_unavailable")
    assert "/srv" not in answer.text


def test_a_dry_run_needs_the_scope_of_a_submission(served: Served, dry_run: ScriptedDryRun) -> None:
    assert_problem(ask(served.requester("reader", Scope.READ)), 403, "forbidden")
    assert dry_run.specs == []


def test_one_requester_cannot_take_all_threads(
    served: Served, requester: Requester, dry_run: ScriptedDryRun
) -> None:
    other = served.requester("other")
    dry_run.may_end.clear()
    with ThreadPoolExecutor() as threads:
        slow = threads.submit(ask, requester)
        dry_run.begun.acquire()
        assert_problem(ask(requester), 429, "too_many_dry_runs")
        answer = threads.submit(ask, other, source={"url": "s3://other/a.mov"})
        dry_run.begun.acquire()
        assert [spec.source.url for spec in dry_run.specs] == [
            MINIMAL["source"]["url"],
            "s3://other/a.mov",
        ]
        dry_run.may_end.set()
        assert answer.result().status_code == 200
        assert slow.result().status_code == 200
    assert ask(requester).status_code == 200


def test_an_api_without_the_part_that_reads_sources_says_so(sqlite_store: Store) -> None:
    with serving(sqlite_store) as served:
        assert_problem(ask(served.requester()), 503, "dry_run_unavailable")
