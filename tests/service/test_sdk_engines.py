"""Test both clients (blocking and async) on each engine: every method and every typed error."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

from euterpe.client import (
    Busy,
    Client,
    ClientError,
    Conflict,
    Event,
    Forbidden,
    Gone,
    Invalid,
    JobFailed,
    NotFound,
    Progress,
    RetryPolicy,
    ServerError,
    StillRunning,
    TooLarge,
    Unauthorized,
    UnexpectedAnswer,
    Unreachable,
)
from euterpe.client.retries import DEFAULT_RETRY
from euterpe.crypto import apikeys
from euterpe.domain.scopes import Scope
from tests.client.conftest import Asynchronous
from tests.free_port import free_port
from tests.net.servers import OK, Server, answering
from tests.service.installation import Installation

_UNKNOWN_ID = "0199a7c4-5b1e-7000-8000-000000000001"
E = TypeVar("E", bound=ClientError)
_CLIENTS: list[Any] = [Client, Asynchronous]


@contextmanager
def connected(
    make: Callable[..., Client], url: str, api_key: str, retry: RetryPolicy = DEFAULT_RETRY
) -> Iterator[Client]:
    with closing(make(url, api_key, on_outage=None, retry=retry)) as client:
        yield client


def test_every_method_does_what_it_says(installation: Installation, media: Path) -> None:
    program = installation.start("serve", "--port", "0", EUTERPE_HEARTBEAT_INTERVAL_MS="200")
    url = program.address()
    for make in _CLIENTS:
        with connected(make, url, installation.api_key) as client:
            assert {profile["name"] for profile in client.profiles()} >= {"h264-720p", "audio-aac"}
            job_ids = [_submit_twice(installation, client), _watch_and_cancel(installation, client)]
            job_ids += [
                _fail_and_retry(installation, client, media),
                _replace_credentials(installation, client),
            ]
            assert {job.job_id for job in client.jobs(limit=2)} >= set(job_ids)
            assert {job.status for job in client.jobs(status="failed")} == {"failed"}
            assert set(client.statuses([*job_ids, _UNKNOWN_ID])) == set(job_ids)
    assert program.stop() == 0


def _submit_twice(installation: Installation, client: Client) -> str:
    request, key = installation.request("clip.mp4", profile="audio-aac"), f"once-by-{type(client).__name__}"
    first, second = (client.submit(request, idempotency_key=key) for _ in range(2))
    assert first.job_id == second.job_id
    assert client.wait(first.job_id, timeout=60).raise_for_failure() == client.status(first.job_id)
    return first.job_id


def _watch_and_cancel(installation: Installation, client: Client) -> str:
    """Watch a job from its first event to its last, and cancel it at its first progress."""
    job = client.submit(installation.request("long.mp4"))
    items: list[Event | Progress] = []
    for seen in client.watch(job.job_id):
        if isinstance(seen, Progress) and not any(isinstance(before, Progress) for before in items):
            client.cancel(job.job_id)
        items.append(seen)
    events = [seen for seen in items if isinstance(seen, Event)]
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert (events[0].type, events[-1].type) == ("job.claimed", "job.failed")
    assert len(items) > len(events)
    with pytest.raises(JobFailed) as failed:
        client.wait(job.job_id, timeout=60).raise_for_failure()
    assert failed.value.code == "canceled"
    return job.job_id


def _fail_and_retry(installation: Installation, client: Client, media: Path) -> str:
    late = media / "late.mp4"
    late.unlink(missing_ok=True)
    job = client.submit(installation.request(late.name, profile="audio-aac"))
    failed = client.wait(job.job_id, timeout=60)
    assert failed.error is not None
    assert (failed.status, failed.error["code"]) == ("failed", "source_not_found")
    late.write_bytes((media / "clip.mp4").read_bytes())
    assert client.retry(job.job_id).status != "failed"
    assert client.wait(job.job_id, timeout=60).status == "succeeded"
    return job.job_id


def _replace_credentials(installation: Installation, client: Client) -> str:
    job = client.submit(installation.request("clip.mp4", queue="no-worker"))
    assert client.replace_credentials(job.job_id, installation.s3.document()) == 2
    assert client.cancel(job.job_id).status == "failed"
    return job.job_id


def test_every_error_has_its_type(installation: Installation) -> None:
    once = RetryPolicy(attempts=1)
    program = installation.start("api", "--port", "0", EUTERPE_MAX_UNFINISHED="1")
    url = program.address()
    with installation.store() as store:
        reader = store.requesters.create("reader", [Scope.READ]).api_key
    for make in _CLIENTS:
        with connected(make, url, apikeys.mint().plaintext, once) as client:
            _expect(Unauthorized, client.status, _UNKNOWN_ID)
        with connected(make, url, reader, once) as client:
            _expect(Forbidden, client.submit, installation.request("clip.mp4"))
        with connected(make, url, installation.api_key, once) as client:
            _expect_errors(installation, client)
        with (
            Server(answering(OK)) as other,
            connected(make, f"http://{other.pair}", installation.api_key, once) as client,
        ):
            _expect(UnexpectedAnswer, client.status, _UNKNOWN_ID)
        with connected(make, f"http://127.0.0.1:{free_port()}", installation.api_key, once) as client:
            _expect(Unreachable, client.status, _UNKNOWN_ID)
    assert program.stop() == 0


def _expect_errors(installation: Installation, client: Client) -> None:
    # This job has no webhook, because a prune keeps jobs with undelivered events.
    request = installation.request("clip.mp4", status_webhook_url=None)
    _expect(NotFound, client.status, _UNKNOWN_ID)
    assert _expect(Invalid, client.submit, {**request, "profile": "none"}).errors
    _expect(TooLarge, client.submit, {**request, "metadata": {"long": "x" * 300_000}})
    job = client.submit(request)
    assert _expect(Busy, client.submit, request).retry_after
    _expect(Conflict, client.retry, job.job_id)
    _expect(StillRunning, client.wait, job.job_id, 0.01)
    client.cancel(job.job_id)
    _expect(JobFailed, client.status(job.job_id).raise_for_failure)
    installation.run("prune", "--older-than", "0s")
    _expect(Gone, client.status, job.job_id)
    with _without_jobs_table(installation):
        assert _expect(ServerError, client.status, job.job_id).request_id


def _expect(kind: type[E], call: Callable[..., object], *arguments: object) -> E:
    with pytest.raises(kind) as caught:
        call(*arguments)
    assert type(caught.value) is kind
    return caught.value


@contextmanager
def _without_jobs_table(installation: Installation) -> Iterator[None]:
    """Rename the table of jobs during the block, so that the server answers with an internal error."""
    with installation.store() as store:
        with store.database.transaction() as connection:
            connection.execute(sa.text("ALTER TABLE inbox_jobs RENAME TO renamed"))
        yield
        with store.database.transaction() as connection:
            connection.execute(sa.text("ALTER TABLE renamed RENAME TO inbox_jobs"))
