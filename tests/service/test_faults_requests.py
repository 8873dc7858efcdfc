"""Test identical requests that are posted in parallel with one idempotency key."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from urllib.request import Request, urlopen

import pytest

from tests.service.installation import Installation

AT_ONCE = 50


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
def test_duplicates_that_are_posted_in_parallel_make_one_job(installation: Installation) -> None:
    program = installation.start("api", "--port", "0")
    url = f"{program.address()}/transcode"
    body = json.dumps(installation.request("clip.mp4")).encode()
    headers = {
        "x-api-key": installation.api_key,
        "idempotency-key": "the-same",
        "content-type": "application/json",
    }
    start = Barrier(AT_ONCE)

    def post(_: int) -> tuple[int, str, bool]:
        start.wait()
        with urlopen(Request(url, body, headers)) as answer:  # noqa: S310  our own server
            job_id = json.load(answer)["job_id"]
            return answer.status, job_id, answer.headers.get("idempotent-replayed") == "true"

    with ThreadPoolExecutor(AT_ONCE) as requesters:
        answers = list(requesters.map(post, range(AT_ONCE)))
    assert {status for status, _, _ in answers} == {202}
    assert len({job_id for _, job_id, _ in answers}) == 1, "same-key-same-job"
    assert sum(replayed for _, _, replayed in answers) == AT_ONCE - 1
    with installation.store() as store:
        assert len(store.jobs.page()) == 1
    assert program.stop() == 0
