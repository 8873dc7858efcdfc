import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from euterpe.batch.rows import Request
from euterpe.batch.submission import AcceptedRow, BatchClient, Submission
from euterpe.client import Busy, ClientError, Invalid, Job, Unauthorized
from euterpe.client.documents import Document
from euterpe.crypto import apikeys
from tests.client.scripted_server import AT_ONCE, Answer, Disconnect, Server, job, problem, running


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture
def client(server: Server) -> Iterator[BatchClient]:
    with BatchClient(server.url, apikeys.mint().plaintext) as made:
        yield made


def make_requests(count: int) -> Iterator[Request]:
    return (Request(0, line, {"line": line}, f"batch-{line}") for line in range(count))


Outcomes = dict[int, AcceptedRow | ClientError]


def submitted(
    take: Callable[[Document, str], AcceptedRow], count: int, **options: Any
) -> tuple[ClientError | None, Outcomes]:
    """Run a submission. Return the error that ended the submission, and the outcome of each row."""
    outcomes: Outcomes = {}

    def record(request: Request, outcome: AcceptedRow | ClientError) -> None:
        outcomes[request.line] = outcome

    return Submission(take, make_requests(count), record, **{"max_in_flight": 4, **options}).run(), outcomes


ACCEPTED = AcceptedRow(Job.read(job()), was_there=False)


def test_a_row_is_accepted_or_existed_before(client: BatchClient, server: Server) -> None:
    server.script(Answer(202, job()), Answer(202, job(), {"idempotent-replayed": "true"}))
    halt, outcomes = submitted(client.take, 2, max_in_flight=1)
    assert halt is None
    assert [outcome.was_there for outcome in outcomes.values() if isinstance(outcome, AcceptedRow)] == [
        False,
        True,
    ]
    assert [request.headers["idempotency-key"] for request in server.requests] == ["batch-0", "batch-1"]
    assert [request.json for request in server.requests] == [{"line": 0}, {"line": 1}]


def test_no_more_are_in_flight_than_allowed() -> None:
    all_in_flight = threading.Barrier(5)
    lock, now, most = threading.Lock(), 0, 0

    def take(_document: Document, _key: str) -> AcceptedRow:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        all_in_flight.wait(30)  # wait until five calls run at once
        with lock:
            now -= 1
        return ACCEPTED

    halt, outcomes = submitted(take, 50, max_in_flight=5)
    assert (halt, len(outcomes), most) == (None, 50, 5)


def test_a_refused_row_stops_no_other_row(client: BatchClient, server: Server) -> None:
    refusal = problem(
        422, "invalid_request", errors=[{"loc": ["output", "url"], "msg": "is not allowed here"}]
    )
    server.script(refusal, Answer(202, job()))
    halt, outcomes = submitted(client.take, 2, max_in_flight=1)
    assert halt is None
    assert isinstance(outcomes[0], Invalid)
    assert "output.url: is not allowed here" in str(outcomes[0])
    assert isinstance(outcomes[1], AcceptedRow)


def test_a_busy_service_is_retried_until_it_has_room(client: BatchClient, server: Server) -> None:
    """One call of the client sends at most 6 requests, so the submission must repeat the call."""
    server.script(*[problem(429, "queue_full", headers=AT_ONCE)] * 20, Answer(202, job()))
    halt, outcomes = submitted(client.take, 1)
    assert (halt, len(server.requests)) == (None, 21)
    assert isinstance(outcomes[0], AcceptedRow)
    assert {request.headers["idempotency-key"] for request in server.requests} == {"batch-0"}


def test_a_service_that_stays_busy_is_given_up() -> None:
    def take(_document: Document, _key: str) -> AcceptedRow:
        raise Busy("too many jobs are unfinished", code="queue_full")

    halt, outcomes = submitted(take, 10, busy_timeout_s=0.0)
    assert isinstance(halt, Busy)
    assert outcomes == {}


def test_a_lost_connection_is_made_again(client: BatchClient, server: Server) -> None:
    server.script(Disconnect(), Answer(202, job()))
    halt, outcomes = submitted(client.take, 1)
    assert halt is None
    assert isinstance(outcomes[0], AcceptedRow)


def test_an_error_that_no_row_caused_ends_the_submission(client: BatchClient, server: Server) -> None:
    server.script(Answer(202, job()), problem(401, "unauthorized"))
    halt, outcomes = submitted(client.take, 100, max_in_flight=1)
    assert isinstance(halt, Unauthorized)
    assert (len(outcomes), len(server.requests)) == (1, 2)


def test_a_read_error_ends_the_submission() -> None:
    def breaking() -> Iterator[Request]:
        yield from make_requests(3)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        Submission(lambda *_: ACCEPTED, breaking(), lambda *_: None, max_in_flight=2).run()


@pytest.mark.parametrize("moment", ["batch-0", "batch-1000"])
def test_an_interrupt_stops_the_submission(moment: str) -> None:
    """An interrupt also works while the threads start. No thread runs after the interrupt."""
    endless = (Request(0, line, {}, f"batch-{line}") for line in itertools.count())

    def take(_document: Document, key: str) -> AcceptedRow:
        if key == moment:
            signal.raise_signal(signal.SIGINT)
        return ACCEPTED

    with pytest.raises(KeyboardInterrupt):
        Submission(take, endless, lambda *_: None, max_in_flight=100).run()
    assert "euterpe-submission" not in {thread.name for thread in threading.enumerate()}
