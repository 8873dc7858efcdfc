"""A slow or unavailable key provider delays or refuses only the calls that need it."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from euterpe.api.backpressure import ApiLimits
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.states import JobStatus
from euterpe.store.store import Store
from tests import engines
from tests.api.serving import CREDENTIALS, Requester, Served, assert_problem, serving
from tests.domain.documents import MINIMAL
from tests.key_providers import WatchedKeyProvider

WITH_SECRETS = {**MINIMAL, "credentials": CREDENTIALS}


@pytest.fixture
def provider(ring: LocalKeyRing) -> WatchedKeyProvider:
    return WatchedKeyProvider(ring)


@pytest.fixture
def sqlite_store(servers: Callable[[str], engines.Engine], provider: WatchedKeyProvider) -> Iterator[Store]:
    with servers("sqlite").fresh() as url, Store(url, provider, sweep_every_ms=0) as opened:
        yield opened


@pytest.fixture
def served(sqlite_store: Store) -> Iterator[Served]:
    with serving(sqlite_store) as served:
        yield served


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as pool:
        yield pool


def put_credentials(requester: Requester, job_id: str) -> httpx.Response:
    return requester.http.put(f"/transcode/{job_id}/credentials", json={"credentials": CREDENTIALS})


def test_the_api_answers_while_calls_wait_for_the_key_provider(
    provider: WatchedKeyProvider, served: Served, requester: Requester, callers: ThreadPoolExecutor
) -> None:
    other = served.requester("other")
    known = other.submit()
    with provider.held():
        # There are more calls than threads. Calls that wait for the key provider must not occupy all threads.
        posts = [callers.submit(requester.post, WITH_SECRETS) for _ in range(20)]
        puts = [callers.submit(put_credentials, other, known) for _ in range(2)]
        provider.wait_for_waiting(5)
        for _ in range(3):
            assert other.status(known).json()["status"] == "queued"
            assert served.anonymous.get("/readyz").status_code == 200
            assert other.post(MINIMAL).status_code == 202, "this job has no secrets"
        assert other.http.post(f"/transcode/{known}/cancel").status_code == 202
        assert not any(call.done() for call in (*posts, *puts))
    assert {call.result().status_code for call in posts} == {202}


def test_a_job_without_secrets_needs_no_key(provider: WatchedKeyProvider, requester: Requester) -> None:
    before = len(provider.calls)
    provider.is_away = True
    requester.submit(source={"url": "s3://in/a.mov"}, status_webhook_url="https://requester.example/hook")
    assert len(provider.calls) == before


@pytest.mark.parametrize(
    "secret",
    [
        {"credentials": CREDENTIALS},
        {"source": {"url": "https://source.example/a.mov?token=abcdef"}},
        {"output": {"urls": {"video": "https://out.example/a.mp4?token=abcdef"}}},
        {"status_webhook_url": "https://requester.example/hook?token=abcdef"},
        {"refresh_url": "https://requester.example/refresh?token=abcdef"},
    ],
    ids=["credentials", "source", "output", "webhook", "refresh"],
)
def test_a_job_with_a_secret_is_refused_while_the_keys_are_away(
    provider: WatchedKeyProvider, served: Served, requester: Requester, secret: dict[str, object]
) -> None:
    document = {**MINIMAL, **secret}
    provider.is_away = True
    answer = requester.post(document, idempotency_key="k")
    assert_problem(answer, 503, "key_provider_unavailable")
    assert answer.headers["retry-after"] == "2"
    assert "took it away" not in answer.text, "the provider's message is only for the operator"
    assert served.store.jobs.unfinished(requester.id, at_most=9) == 0
    provider.is_away = False
    assert requester.post(document, idempotency_key="k").status_code == 202


def test_a_repeated_request_is_answered_while_the_keys_are_away(
    provider: WatchedKeyProvider, requester: Requester
) -> None:
    first = requester.post(WITH_SECRETS, idempotency_key="k")
    provider.is_away = True
    again = requester.post(WITH_SECRETS, idempotency_key="k")
    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    assert_problem(requester.post(WITH_SECRETS), 503, "key_provider_unavailable")


def test_a_refused_call_leaves_its_place_in_the_quota(
    sqlite_store: Store, provider: WatchedKeyProvider
) -> None:
    with serving(sqlite_store, ApiLimits(max_unfinished=1)) as served:
        requester = served.requester()
        provider.is_away = True
        for _ in range(3):
            assert_problem(requester.post(WITH_SECRETS), 503, "key_provider_unavailable")
        provider.is_away = False
        assert requester.post(WITH_SECRETS).status_code == 202


def test_new_credentials_are_refused_while_the_keys_are_away(
    provider: WatchedKeyProvider, served: Served, requester: Requester
) -> None:
    job_id = requester.submit(credentials=CREDENTIALS)
    provider.is_away = True
    assert_problem(put_credentials(requester, job_id), 503, "key_provider_unavailable")
    assert served.store.jobs.get(job_id).status == JobStatus.QUEUED
    provider.is_away = False
    assert put_credentials(requester, job_id).json() == {"credential_version": 2}


def test_a_burst_of_jobs_with_secrets_is_accepted(served: Served, requester: Requester) -> None:
    async def post_at_once(count: int) -> list[int]:
        headers = {"authorization": f"Bearer {requester.key}"}
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=served.url, headers=headers, limits=limits, timeout=60, trust_env=False
        ) as client:
            answers = await asyncio.gather(
                *(client.post("/transcode", json=WITH_SECRETS) for _ in range(count))
            )
            return [answer.status_code for answer in answers]

    assert asyncio.run(post_at_once(300)) == [202] * 300
