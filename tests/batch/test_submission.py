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


def some(count: int) -> Iterator[Request]:
    return (Request(0, line, {"line": line}, f"batch-{line}") for line in range(count))


Outcomes = dict[int, AcceptedRow | ClientError]


def submitted(
    take: Callable[[Document, str], AcceptedRow], count: int, **options: Any
) -> tuple[ClientError | None, Outcomes]:
    """What ended it, and what became of each row."""
    told: Outcomes = {}

    def tell(request: Request, outcome: AcceptedRow | ClientError) -> None:
        told[request.line] = outcome

    return Submission(take, some(count), tell, **{"max_in_flight": 4, **options}).run(), told


TAKEN = AcceptedRow(Job.read(job()), was_there=False)


def test_a_row_is_taken_or_was_there(client: BatchClient, server: Server) -> None:
    server.script(Answer(202, job()), Answer(202, job(), {"idempotent-replayed": "true"}))
    halt, told = submitted(client.take, 2, max_in_flight=1)
    assert halt is None
    assert [outcome.was_there for outcome in told.values() if isinstance(outcome, AcceptedRow)] == [
        False,
        True,
    ]
    assert [request.headers["idempotency-key"] for request in server.requests] == ["batch-0", "batch-1"]
    assert [request.json for request in server.requests] == [{"line": 0}, {"line": 1}]


def test_no_more_are_in_flight_than_allowed() -> None:
    together = threading.Barrier(5)
    lock, now, most = threading.Lock(), 0, 0

    def take(_document: Document, _key: str) -> AcceptedRow:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        together.wait(30)  # until five are there
        with lock:
            now -= 1
        return TAKEN

    halt, told = submitted(take, 50, max_in_flight=5)
    assert (halt, len(told), most) == (None, 50, 5)


def test_a_refused_row_keeps_no_other_back(client: BatchClient, server: Server) -> None:
    refusal = problem(
        422, "invalid_request", errors=[{"loc": ["output", "url"], "msg": "is not allowed here"}]
    )
    server.script(refusal, Answer(202, job()))
    halt, told = submitted(client.take, 2, max_in_flight=1)
    assert halt is None
    assert isinstance(told[0], Invalid)
    assert "output.url: is not allowed here" in str(told[0])
    assert isinstance(told[1], AcceptedRow)


def test_a_busy_service_is_asked_until_it_has_room(client: BatchClient, server: Server) -> None:
    """For longer than the client alone would: as long as it says when to come back."""
    server.script(*[problem(429, "queue_full", headers=AT_ONCE)] * 20, Answer(202, job()))
    halt, told = submitted(client.take, 1)
    assert (halt, len(server.requests)) == (None, 21)
    assert isinstance(told[0], AcceptedRow)
    assert {request.headers["idempotency-key"] for request in server.requests} == {"batch-0"}


def test_a_service_that_takes_nothing_is_given_up() -> None:
    def take(_document: Document, _key: str) -> AcceptedRow:
        raise Busy("too many jobs are unfinished", code="queue_full")

    halt, told = submitted(take, 10, patience_s=0.0)
    assert isinstance(halt, Busy)
    assert told == {}


def test_a_lost_connection_is_made_again(client: BatchClient, server: Server) -> None:
    server.script(Disconnect(), Answer(202, job()))
    halt, told = submitted(client.take, 1)
    assert halt is None
    assert isinstance(told[0], AcceptedRow)


def test_what_is_no_rows_fault_ends_the_submission(client: BatchClient, server: Server) -> None:
    server.script(Answer(202, job()), problem(401, "unauthorized"))
    halt, told = submitted(client.take, 100, max_in_flight=1)
    assert isinstance(halt, Unauthorized)
    assert (len(told), len(server.requests)) == (1, 2)


def test_rows_that_cannot_be_read_on_end_it_too() -> None:
    def breaking() -> Iterator[Request]:
        yield from some(3)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        Submission(lambda *_: TAKEN, breaking(), lambda *_: None, max_in_flight=2).run()


@pytest.mark.parametrize("moment", ["batch-0", "batch-1000"])
def test_a_person_may_interrupt_it(moment: str) -> None:
    """Also while it starts; nothing of it goes on."""
    endless = (Request(0, line, {}, f"batch-{line}") for line in itertools.count())

    def take(_document: Document, key: str) -> AcceptedRow:
        if key == moment:
            signal.raise_signal(signal.SIGINT)
        return TAKEN

    with pytest.raises(KeyboardInterrupt):
        Submission(take, endless, lambda *_: None, max_in_flight=100).run()
    assert "euterpe-submission" not in {thread.name for thread in threading.enumerate()}
