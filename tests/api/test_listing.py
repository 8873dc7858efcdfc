"""GET /transcode/jobs: the list of a requester's jobs, in pages."""

from typing import Any

import pytest

from tests.api.serving import Requester, Served, field_errors
from tests.store.jobs import claim_one


def pages(requester: Requester, **params: Any) -> list[list[str]]:
    listed, query = [], params
    while True:
        document = requester.http.get("/transcode/jobs", params=query).json()
        listed.append([job["job_id"] for job in document["jobs"]])
        if document["next_cursor"] is None:
            return listed
        query = {**params, "cursor": document["next_cursor"]}


def test_jobs_come_newest_first_page_by_page(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    newest = [requester.submit() for _ in range(5)][::-1]
    on_every_engine.requester("stranger").submit()
    assert pages(requester, limit=2) == [newest[:2], newest[2:4], newest[4:]]
    assert pages(requester, limit=5) == [newest]
    assert pages(requester) == [newest]


def test_the_documents_are_those_of_the_status(requester: Requester) -> None:
    job_id = requester.submit(external_id="asset-42")
    (listed,) = requester.http.get("/transcode/jobs").json()["jobs"]
    assert listed == requester.status(job_id).json()


def test_only_the_statuses_asked_for_are_listed(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    queued = {requester.submit() for _ in range(3)}
    claimed = claim_one(on_every_engine.store).job_id
    assert pages(requester, status="claimed") == [[claimed]]
    assert set(pages(requester, status="queued")[0]) == queued - {claimed}
    assert set(pages(requester, status=["queued", "claimed"])[0]) == queued
    assert pages(requester, status="succeeded") == [[]]


def test_a_job_that_comes_later_does_not_disturb_the_pages(requester: Requester) -> None:
    newest = [requester.submit() for _ in range(3)][::-1]
    first = requester.http.get("/transcode/jobs", params={"limit": 1}).json()
    requester.submit()
    rest = requester.http.get("/transcode/jobs", params={"cursor": first["next_cursor"]}).json()
    assert [job["job_id"] for job in rest["jobs"]] == newest[1:]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("limit", "0"), ("limit", "201"), ("limit", "many"), ("status", "done"), ("status", "")]
    + [("cursor", wrong) for wrong in ("", "x", "é", "A" * 21, "A" * 23, "A" * 21 + "=", "A" * 5000)],
)
def test_a_parameter_that_means_nothing_is_refused(requester: Requester, name: str, wrong: str) -> None:
    assert (name,) in field_errors(requester.http.get("/transcode/jobs", params={name: wrong}))
