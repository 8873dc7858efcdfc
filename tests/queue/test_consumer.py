"""`consume` on the database's clock: handlers, heartbeats, maintenance, drain and lost leases."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.queue import JobContext, NotActive, Queue, ReservedJob
from euterpe.store.engine.database import Database
from euterpe.store.errors import StoreUnavailable
from euterpe.store.tables import queue_jobs
from tests.queue.conftest import NAME, Caller

SLOW_S = 60.0  # much longer than any step takes


class Consuming:
    """A consumer in a separate thread. The test stops it."""

    def __init__(self, queue: Queue, handler: Callable[[JobContext], object], **options: Any) -> None:
        self.stop = threading.Event()
        self._error: BaseException | None = None

        def run() -> None:
            try:
                queue.consume(queue=NAME, handler=handler, stop=self.stop, **options)
            except BaseException as error:  # noqa: BLE001  the test raises it
                self._error = error

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(SLOW_S)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error

    def end(self) -> None:
        self.stop.set()
        self.join()


@pytest.fixture
def queue(url: str) -> Iterator[Queue]:
    with Queue(url) as opened:
        yield opened


def publish(queue: Queue, **options: Any) -> str:
    return queue.publish(queue=NAME, payload={"n": 1}, **options)


def test_a_handler_gets_every_field_of_the_job(queue: Queue) -> None:
    job_id = publish(queue, gid="g", max_attempts=2)
    seen: list[JobContext] = []

    def handle(context: JobContext) -> None:
        seen.append(context)
        consuming.stop.set()

    consuming = Consuming(queue, handle)
    consuming.join()
    (context,) = seen
    assert (context.queue, context.job_id, context.gid) == (NAME, job_id, "g")
    assert (context.payload, context.payload_raw) == ({"n": 1}, '{"n":1}')
    assert (context.attempt, context.max_attempts) == (1, 2)
    assert context.lock_until_ms > 0
    assert context.lease_token not in repr(context)
    with pytest.raises(NotActive):  # acked
        queue.heartbeat(queue=NAME, job_id=job_id, lease_token=context.lease_token)


def test_a_handler_that_raises_is_retried_until_its_attempts_are_used_up(queue: Queue) -> None:
    publish(queue, max_attempts=3, backoff_ms=0)
    last = publish(queue, job_id="last")
    attempts: list[int] = []

    def handle(context: JobContext) -> None:
        if context.job_id != last:
            attempts.append(context.attempt)
            raise SystemExit("no route")
        if len(attempts) < 3:
            raise ValueError("not yet")
        consuming.stop.set()

    consuming = Consuming(queue, handle, promote_interval_s=0.0, poll_interval_s=0.01)
    consuming.join()
    assert attempts == [1, 2, 3]
    assert queue.reserve(queue=NAME) is None


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, "[" + "9" * 5_000 + "]", "{"])
def test_a_payload_that_cannot_be_read_fails_the_attempt(queue: Queue, url: str, text: str) -> None:
    """Another program can have stored such a payload."""
    job_id = publish(queue, max_attempts=1)
    last = publish(queue, job_id="last")
    database = Database(url)
    with database.transaction() as connection:
        change = sa.update(queue_jobs).where(queue_jobs.c.job_id == job_id).values(payload=text)
        connection.execute(change)
    database.close()
    seen: list[str] = []

    def handle(context: JobContext) -> None:
        seen.append(context.job_id)
        consuming.stop.set()

    consuming = Consuming(queue, handle)
    consuming.join()
    assert seen == [last]
    assert "the payload cannot be read" in Caller(queue, url).row(job_id).last_error


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise SystemExit


def test_an_error_whose_text_cannot_be_made_fails_the_attempt(queue: Queue, url: str) -> None:
    job_id = publish(queue, max_attempts=1)
    last = publish(queue, job_id="last")

    def handle(context: JobContext) -> None:
        if context.job_id != last:
            raise UnprintableError
        consuming.stop.set()

    consuming = Consuming(queue, handle)
    consuming.join()
    assert Caller(queue, url).row(job_id).last_error == "UnprintableError: SystemExit in its __str__"


def test_a_long_handler_keeps_its_lease_by_heartbeats(queue: Queue) -> None:
    publish(queue, timeout_ms=1_500, max_attempts=1)
    beats, enough = [], threading.Event()
    beat = queue.heartbeat

    def counted(**lease: Any) -> int:
        beats.append(beat(**lease))
        if len(beats) == 4:
            enough.set()
        return beats[-1]

    queue.heartbeat = counted  # type: ignore[method-assign]
    ends: list[bool] = []

    def handle(context: JobContext) -> None:
        ends.append(enough.wait(SLOW_S) and not context.must_stop.is_set())
        consuming.stop.set()

    consuming = Consuming(queue, handle, heartbeat_interval_s=0.05)
    consuming.join()
    assert ends == [True]
    assert beats == sorted(beats)


def test_a_consumer_promotes_and_reaps_by_itself(queue: Queue) -> None:
    publish(queue, job_id="abandoned", timeout_ms=1, backoff_ms=0)
    assert isinstance(queue.reserve(queue=NAME), ReservedJob)
    publish(queue, job_id="delayed", due_ms=queue.now_ms() + 200)
    seen: set[str] = set()

    def handle(context: JobContext) -> None:
        seen.add(context.job_id)
        if seen == {"abandoned", "delayed"}:
            consuming.stop.set()

    consuming = Consuming(queue, handle, promote_interval_s=0.05, reap_interval_s=0.05, poll_interval_s=0.05)
    consuming.join()


def test_a_lost_lease_tells_the_handler_and_is_not_acked(queue: Queue) -> None:
    publish(queue, timeout_ms=60_000, backoff_ms=0)
    running, told = threading.Event(), threading.Event()

    def handle(context: JobContext) -> None:
        running.set()
        assert context.must_stop.wait(SLOW_S)
        told.set()

    consuming = Consuming(queue, handle, heartbeat_interval_s=0.05)
    assert running.wait(SLOW_S)
    consuming.stop.set()
    in_an_hour = queue.now_ms() + 3_600_000
    assert queue.reap_expired(queue=NAME, now_ms_override=in_an_hour) == 1
    owner = queue.reserve(queue=NAME, now_ms_override=in_an_hour)
    assert isinstance(owner, ReservedJob)
    consuming.join()
    assert told.is_set()
    queue.ack_success(queue=NAME, job_id=owner.job_id, lease_token=owner.lease_token)


def test_a_drained_consumer_finishes_its_job_and_takes_no_other(queue: Queue) -> None:
    publish(queue, job_id="current")
    publish(queue, job_id="next")
    running, go_on = threading.Event(), threading.Event()

    def handle(context: JobContext) -> None:
        assert context.job_id == "current"
        running.set()
        assert go_on.wait(SLOW_S)
        assert not context.must_stop.is_set()

    consuming = Consuming(queue, handle)
    assert running.wait(SLOW_S)
    consuming.stop.set()
    go_on.set()
    consuming.join()
    following = queue.reserve(queue=NAME)
    assert isinstance(following, ReservedJob)
    assert following.job_id == "next"
    assert queue.reserve(queue=NAME) is None


def test_without_drain_a_consumer_leaves_at_once(queue: Queue) -> None:
    job_id = publish(queue, backoff_ms=0)
    running, leave = threading.Event(), threading.Event()
    contexts: list[JobContext] = []

    def handle(context: JobContext) -> None:
        contexts.append(context)
        running.set()
        leave.wait(SLOW_S)

    consuming = Consuming(queue, handle, drain=False)
    assert running.wait(SLOW_S)
    consuming.end()  # the handler is still running
    assert contexts[0].must_stop.is_set()
    leave.set()
    in_an_hour = queue.now_ms() + 3_600_000
    assert queue.reap_expired(queue=NAME, now_ms_override=in_an_hour) == 1
    again = queue.reserve(queue=NAME, now_ms_override=in_an_hour)
    assert isinstance(again, ReservedJob)
    assert (again.job_id, again.attempt) == (job_id, 2)


def test_a_paused_queue_is_consumed_after_the_resume(queue: Queue) -> None:
    queue.pause(queue=NAME)
    publish(queue)
    looked = threading.Event()
    reserve = queue.reserve

    def noticed(**options: Any) -> Any:
        found = reserve(**options)
        if found is not None and found.status == "PAUSED":
            looked.set()
        return found

    queue.reserve = noticed  # type: ignore[method-assign]
    consuming = Consuming(queue, lambda _: consuming.stop.set(), poll_interval_s=0.05)
    assert looked.wait(SLOW_S)
    queue.resume(queue=NAME)
    consuming.join()


def test_an_outage_ends_no_consumer(queue: Queue) -> None:
    publish(queue)
    left = {"reserve": 2, "ack_success": 2}

    def failing(name: str) -> Callable[..., Any]:
        call = getattr(queue, name)

        def fail_first(**options: Any) -> Any:
            if left[name]:
                left[name] -= 1
                raise StoreUnavailable("the database is away")
            return call(**options)

        return fail_first

    queue.reserve = failing("reserve")  # type: ignore[method-assign]
    queue.ack_success = failing("ack_success")  # type: ignore[method-assign]
    handled: list[str] = []

    def handle(context: JobContext) -> None:
        handled.append(context.job_id)
        consuming.stop.set()

    consuming = Consuming(queue, handle, poll_interval_s=0.01)
    consuming.join()
    assert left == {"reserve": 0, "ack_success": 0}
    assert len(handled) == 1
    in_an_hour = queue.now_ms() + 3_600_000
    assert queue.reap_expired(queue=NAME, now_ms_override=in_an_hour) == 0


PROGRAM = """
import sys
from euterpe.queue import Queue

def handle(context):
    print("running", flush=True)
    sys.stdin.readline()
    print("finished", flush=True)

with Queue(sys.argv[1]) as queue:
    queue.consume(queue="mails", handler=handle)
print("left")
"""


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_the_program(queue: Queue, url: str, number: signal.Signals) -> None:
    publish(queue)
    publish(queue)
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stdout.readline() == "running\n"
    program.send_signal(number)
    printed, _ = program.communicate("\n", SLOW_S)
    assert (printed.splitlines()[-2:], program.returncode) == (["finished", "left"], 0)
    assert isinstance(queue.reserve(queue=NAME), ReservedJob)  # the second job was not taken
    assert queue.reserve(queue=NAME) is None
