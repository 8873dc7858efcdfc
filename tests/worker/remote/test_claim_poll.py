import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count

import pytest

from euterpe.domain.leased_job import Unavailable
from euterpe.worker.remote.claim_poll import ClaimedAt, ClaimPoll
from euterpe.worker.remote.held_lease import boot_clock
from euterpe.worker.remote.server_connection import ServerConnection
from euterpe.worker.remote.server_errors import CallRefused, ProtocolNotSupported, WorkerKeyRefused
from euterpe.worker.remote.server_settings import ServerSettings
from tests.client.scripted_server import Answer, Disconnect, Server, problem
from tests.worker.remote.answers import EMPTY, JOB, OK, OTHER, Late, jobs
from tests.worker.remote.conftest import Clock

InThread = Callable[[Callable[[], ClaimedAt | None]], "Future[ClaimedAt | None]"]


@pytest.fixture
def polls(connection: ServerConnection) -> ClaimPoll:
    return poll_of(connection)


def poll_of(connection: ServerConnection, clock: Callable[[], float] = boot_clock) -> ClaimPoll:
    ids = count(1)
    return ClaimPoll(
        connection, "w-1", ["eu"], clock=clock, undisturbed_s=0.01, new_id=lambda: f"c-{next(ids)}"
    )


@pytest.fixture
def in_thread() -> Iterator[InThread]:
    with ThreadPoolExecutor() as pool:
        yield pool.submit


def claimed_ids(found: ClaimedAt | None) -> list[str]:
    assert found is not None
    return [job.lease.job_id for job in found.answer.jobs]


def claim_ids(server: Server) -> list[str]:
    return [request.json["claim_id"] for request in server.requests]


def test_each_answered_claim_has_an_id_of_its_own(polls: ClaimPoll, server: Server) -> None:
    server.script(jobs(JOB), EMPTY, jobs(OTHER))
    assert [claimed_ids(polls.claim(1, 0.0)) for _ in range(3)] == [[JOB], [], [OTHER]]
    assert claim_ids(server) == ["c-1", "c-2", "c-3"]


def test_a_claim_keeps_its_id_until_it_is_answered(connection: ServerConnection, server: Server) -> None:
    clock = Clock()
    polls = poll_of(connection, clock)
    server.script(problem(503, "stopping"), Disconnect(), Disconnect(), jobs(JOB))
    for _ in range(2):
        with pytest.raises(Unavailable):
            polls.claim(1, 0.0)
        clock.now += 30
    assert claimed_ids(polls.claim(1, 0.0)) == [JOB]
    assert set(claim_ids(server)) == {"c-1"}


def test_the_lease_counts_from_the_first_request_of_a_claim(
    connection: ServerConnection, server: Server
) -> None:
    """The server may have claimed the job at the first request, whose answer was lost."""
    clock = Clock()
    polls = poll_of(connection, clock)
    server.script(Disconnect(), Disconnect(), jobs(JOB))
    with pytest.raises(Unavailable):
        polls.claim(1, 0.0)
    clock.now += 30
    found = polls.claim(1, 0.0)
    assert found is not None
    assert (found.sent_at, found.received_at) == (1000.0, 1030.0)


def test_wake_ends_a_long_poll_whose_id_is_sent_again(
    polls: ClaimPoll, server: Server, in_thread: InThread
) -> None:
    late = Late(EMPTY)
    server.script(late, jobs(JOB))
    waiting = in_thread(lambda: polls.claim(1, 30.0))
    assert late.arrived.wait(10)
    polls.wake()
    assert waiting.result(10) is None
    assert claimed_ids(polls.claim(2, 30.0)) == [JOB]
    late.release()
    assert claim_ids(server) == ["c-1", "c-1"]


def test_an_aborted_poll_frees_its_connection(server: Server, api_key: str, in_thread: InThread) -> None:
    connection = ServerConnection(ServerSettings(server.url, api_key), connections=1)
    polls = poll_of(connection)
    late = Late(EMPTY)
    server.script(late, jobs(JOB))
    waiting = in_thread(lambda: polls.claim(1, 30.0))
    assert late.arrived.wait(10)
    polls.wake()
    waiting.result(10)
    assert claimed_ids(polls.claim(1, 0.0)) == [JOB]
    late.release()
    connection.close()


def test_a_wake_before_a_claim_makes_it_return_at_once(polls: ClaimPoll, server: Server) -> None:
    server.script(EMPTY, EMPTY)
    polls.wake()
    polls.claim(1, 30.0)
    polls.claim(1, 30.0)
    assert [request.json["max_wait_ms"] for request in server.requests] == [0, 30_000]


def test_a_claim_that_is_answered_at_once_is_not_aborted(
    connection: ServerConnection, server: Server, in_thread: InThread
) -> None:
    polls = ClaimPoll(connection, "w-1", ["eu"], clock=boot_clock, undisturbed_s=10.0)
    late = Late(jobs(JOB))
    server.script(late)
    waiting = in_thread(lambda: polls.claim(1, 30.0))
    assert late.arrived.wait(10)
    polls.wake()
    late.release()
    assert claimed_ids(waiting.result(10)) == [JOB]


def test_wake_ends_a_wait(polls: ClaimPoll) -> None:
    waiter = threading.Thread(target=polls.wait, args=(60.0,))
    waiter.start()
    polls.wake()
    waiter.join(10)
    assert not waiter.is_alive()


# -- pauses


def test_the_server_may_ask_for_a_pause_before_the_next_claim(
    connection: ServerConnection, server: Server
) -> None:
    clock = Clock()
    polls = poll_of(connection, clock)
    server.script(Answer(200, {"claimed": False, "retry_after_ms": 5000}), jobs(JOB))
    polls.claim(1, 0.0)
    clock.now += 4.9
    assert polls.claim(1, 0.0) is None
    clock.now += 0.2
    assert claimed_ids(polls.claim(1, 0.0)) == [JOB]


@pytest.mark.parametrize(("asked", "pause_s"), [("7", 7.0), ("3600", 30.0)])
def test_retry_after_is_kept_within_bounds(
    connection: ServerConnection, server: Server, asked: str, pause_s: float
) -> None:
    clock = Clock()
    polls = poll_of(connection, clock)
    server.script(problem(503, "stopping", headers={"retry-after": asked}), EMPTY)
    with pytest.raises(Unavailable):
        polls.claim(1, 0.0)
    clock.now += pause_s - 0.1
    assert polls.claim(1, 0.0) is None
    clock.now += 0.2
    assert polls.claim(1, 0.0) is not None


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (503, "key_provider_unavailable"),
        (503, "unknown_kek"),
        (503, "unknown_encryption_version"),
        (422, "cannot_decrypt"),
    ],
)
def test_a_server_without_its_lease_key_is_an_outage(
    connection: ServerConnection, server: Server, status: int, code: str
) -> None:
    """In an earlier version, the worker repeated its claim without a pause."""
    clock = Clock()
    polls = poll_of(connection, clock)
    server.script(*[problem(status, code)] * 12, EMPTY)
    for _ in range(12):
        with pytest.raises(Unavailable):
            polls.claim(1, 0.0)
        clock.now += 30.0  # the longest pause
    assert polls.claim(1, 0.0) is not None
    assert set(claim_ids(server)) == {"c-1"}


def test_failed_claims_pause_longer_and_longer(connection: ServerConnection, server: Server) -> None:
    clock = Clock()
    polls = poll_of(connection, clock)
    server.script(*[problem(503, "stopping")] * 12, EMPTY)
    for _ in range(12):
        with pytest.raises(Unavailable):
            polls.claim(1, 0.0)
        clock.now += 30.0  # the longest pause
    assert polls.claim(1, 0.0) is not None


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(401, "unauthorized"), WorkerKeyRefused),
        (problem(426, "protocol_not_supported", "upgrade this worker"), ProtocolNotSupported),
        (problem(422, "invalid_request"), CallRefused),
    ],
    ids=["401", "426", "422"],
)
def test_a_refused_claim_raises_its_error(
    polls: ClaimPoll, server: Server, answer: Answer, kind: type[Exception]
) -> None:
    server.script(answer)
    with pytest.raises(kind):
        polls.claim(1, 0.0)


# -- claims that nobody waits for


def test_an_aborted_claim_is_released_when_it_is_not_repeated(
    connection: ServerConnection, server: Server, in_thread: InThread
) -> None:
    clock = Clock()
    polls = poll_of(connection, clock)
    late = Late(EMPTY)
    server.script(late, OK, EMPTY)
    waiting = in_thread(lambda: polls.claim(1, 30.0))
    assert late.arrived.wait(10)
    polls.release_abandoned(abandoned_s=0.0)
    assert len(server.requests) == 1  # the claim still waits, so it is not released
    polls.wake()
    waiting.result(10)
    polls.release_abandoned()  # the claim may still be repeated, so it is not released
    clock.now += 6
    polls.release_abandoned()
    polls.release_abandoned()
    polls.claim(1, 0.0)
    late.release()
    assert [request.path.rpartition("/")[2] for request in server.requests] == ["claim", "release", "claim"]
    assert claim_ids(server) == ["c-1", "c-1", "c-2"]


def test_a_release_that_fails_is_tried_again(connection: ServerConnection, server: Server) -> None:
    clock = Clock()
    polls = poll_of(connection, clock)
    server.script(Disconnect(), Disconnect(), problem(503, "stopping"), OK)
    with pytest.raises(Unavailable):
        polls.claim(1, 0.0)
    for _ in range(3):
        polls.release_abandoned(abandoned_s=0.0)
    assert claim_ids(server) == ["c-1"] * 4


def test_a_malformed_claim_is_released_and_not_repeated(connection: ServerConnection, server: Server) -> None:
    clock = Clock()
    polls = poll_of(connection, clock)
    server.script(Answer(200, {"claimed": True, "job_id": JOB}), OK, EMPTY)
    with pytest.raises(Unavailable, match="not the expected document"):
        polls.claim(1, 0.0)
    polls.release_abandoned()
    clock.now += 30
    polls.claim(1, 0.0)
    assert claim_ids(server) == ["c-1", "c-1", "c-2"]


def test_more_jobs_than_slots_are_released(polls: ClaimPoll, server: Server) -> None:
    """A repeated claim returns all its jobs, even if the worker now has fewer free slots."""
    server.script(jobs(JOB, OTHER), OK)
    assert polls.claim(1, 0.0) is None
    assert claim_ids(server) == ["c-1", "c-1"]


def test_a_claim_ends_when_the_connection_is_closed(
    polls: ClaimPoll, connection: ServerConnection, server: Server, in_thread: InThread
) -> None:
    late = Late(EMPTY)
    server.script(late)
    waiting = in_thread(lambda: polls.claim(1, 30.0))
    assert late.arrived.wait(10)
    connection.close()
    with pytest.raises(Unavailable, match="stopping"):
        waiting.result(10)
    late.release()
