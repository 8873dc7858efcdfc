"""Jobs that name a storage profile of the operator, in place of credentials."""

from collections.abc import Iterator

import pytest

from euterpe.domain.credentials import S3Credentials
from euterpe.domain.storage_profiles import StorageProfile
from euterpe.store.store import Store
from tests.api.serving import CANARY, CREDENTIALS, Served, serving
from tests.domain.documents import MINIMAL
from tests.store.jobs import claim_one

PROFILES = {"main": StorageProfile(S3Credentials.model_validate(CREDENTIALS), frozenset({"newsroom"}))}


@pytest.fixture
def served(store: Store) -> Iterator[Served]:
    with serving(store, storage_profiles=PROFILES) as served:
        yield served


def test_the_worker_gets_the_credentials_and_nobody_else(store: Store, served: Served) -> None:
    newsroom = served.requester("newsroom")
    answer = newsroom.post({**MINIMAL, "storage": "main"})
    assert answer.status_code == 202
    status = newsroom.status(answer.json()["job_id"])
    job = claim_one(store)
    secret, _ = store.credentials.open(job)
    assert secret is not None
    assert CANARY in secret.decode()
    assert job.spec["storage"] == "main"
    assert CANARY not in answer.text + status.text + repr(job)


def test_another_requester_may_not_use_it(served: Served) -> None:
    answer = served.requester("studio").post({**MINIMAL, "storage": "main"})
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"loc": ["storage"], "msg": "must be a storage profile that the operator lets you use"}
    ]


def test_a_repeated_request_gets_the_same_job(served: Served) -> None:
    newsroom = served.requester("newsroom")
    first, second = (newsroom.post({**MINIMAL, "storage": "main"}, idempotency_key="k") for _ in range(2))
    assert first.json() == second.json()
    assert newsroom.post(MINIMAL, idempotency_key="k").status_code == 409
