"""Remote workers whose API process dies: away for longer than a lease, and with a second API process."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from uuid import uuid4

import pytest

from euterpe.client import Client, worker_answers, worker_calls
from euterpe.client.worker_answers import Claimed
from euterpe.client.worker_calls import Beat
from euterpe.domain.scopes import Scope
from euterpe.worker.remote.server_connection import ServerConnection
from euterpe.worker.remote.server_errors import AttemptOver
from euterpe.worker.remote.server_settings import ServerSettings
from tests.free_port import free_port
from tests.service.installation import Installation
from tests.service.recording_proxy import recording_proxy
from tests.service.remote_encode import begin_encode, stopped_encoder
from tests.service.store.processes.invariants import check_lives, read_lives
from tests.store.jobs import enqueue

# After its start, an API process sweeps no expired lease for the duration of a lease. The test sends its
# claim within this time.
_LEASE = {"EUTERPE_LEASE_TTL_MS": "4000", "EUTERPE_HEARTBEAT_INTERVAL_MS": "400"}
_WORKER = "w-calls"
_POLL_S, _LONGEST_POLLS = 0.05, 1200


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_an_attempt_outlives_an_outage_that_is_longer_than_a_lease(installation: Installation) -> None:
    port = free_port()
    arguments = ("api", "--port", str(port))
    api = installation.start(*arguments, **_LEASE)
    server = api.address()
    worker = installation.start_remote_worker(server)
    with Client(server, installation.api_key) as client:
        job_id = begin_encode(installation, client)
        with stopped_encoder(worker):
            api.kill()
            worker.await_log("lease_ran_out")
            os.kill(worker.pid, signal.SIGSTOP)  # so that the claim below arrives before the next heartbeat
            api = installation.start(*arguments, **_LEASE)
            with _calls_to(api.address(), _worker_key(installation)) as other:
                assert _claim(other, str(uuid4())) == ()
            os.kill(worker.pid, signal.SIGCONT)
            worker.await_log("outage_over")
        done = client.wait(job_id, timeout=60).raise_for_failure()
    assert (done.status, done.attempt_count) == ("succeeded", 1)
    assert [program.stop() for program in (worker, api)] == [0, 0]
    _check_one_attempt_each(installation)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
def test_a_second_api_process_takes_over_the_claims_of_a_killed_one(installation: Installation) -> None:
    first, second = (installation.start("api", "--port", "0", **_LEASE) for _ in range(2))
    servers = first.address(), second.address()
    key, claim_id = _worker_key(installation), str(uuid4())
    with (
        recording_proxy(servers[0]) as proxy,
        Client(servers[1], installation.api_key) as client,
        _calls_to(servers[0], key) as to_first,
        _calls_to(servers[1], key) as to_second,
    ):
        worker = installation.start_remote_worker(proxy.url)
        encoded = begin_encode(installation, client)
        with stopped_encoder(worker):
            with installation.store() as store:
                job_ids = enqueue(store, 2, requester_id=installation.requester_id, queue="calls")
            jobs = _claim(to_first, claim_id)
            assert {job.lease.job_id for job in jobs} == {*job_ids}
            _use_claim(to_second, claim_id, jobs)
            first.kill()
            proxy.server = servers[1]
            _use_claim(to_second, claim_id, jobs)
            _end_twice(to_second, jobs)
            _await_next_heartbeat(installation, encoded)
        for job_id in (encoded, *job_ids):
            done = client.wait(job_id, timeout=60)
            assert (done.status, done.attempt_count) == ("succeeded", 1)
    assert [program.stop() for program in (worker, second)] == [0, 0]
    _check_one_attempt_each(installation)


def _await_next_heartbeat(installation: Installation, job_id: str) -> None:
    with installation.store() as store:
        first = store.jobs.get(job_id).heartbeat_at
        for _ in range(_LONGEST_POLLS):
            if store.jobs.get(job_id).heartbeat_at != first:
                return
            threading.Event().wait(_POLL_S)
    raise AssertionError("no heartbeat arrives")


def _use_claim(api: ServerConnection, claim_id: str, jobs: Sequence[Claimed]) -> None:
    """Repeat a claim. Check that this API process returns the same jobs, and accepts their lease tokens."""
    again = _claim(api, claim_id)
    assert [job.lease for job in again] == [job.lease for job in jobs]
    beats = [Beat(job.lease) for job in jobs]
    answers = api.ask(
        worker_calls.heartbeat(_WORKER, beats), lambda answer: worker_answers.beaten(answer, beats)
    )
    assert [answer.held for answer in answers] == [True, True]


def _end_twice(api: ServerConnection, jobs: Sequence[Claimed]) -> None:
    """Complete each job. Check that the second report gets the first answer, and the opposite is refused."""
    for job in jobs:
        complete = worker_calls.complete(_WORKER, job.lease, {"outputs": [], "timings": {}})
        assert api.send(complete).body == api.send(complete).body
        error = {"code": "internal_error", "message": "", "retryable": True, "phase": "claimed"}
        fail = worker_calls.fail(_WORKER, job.lease, {**error, "retry_class": "transient"}, {})
        with pytest.raises(AttemptOver):
            api.send(fail)


def _claim(api: ServerConnection, claim_id: str) -> Sequence[Claimed]:
    call = worker_calls.claim(_WORKER, ["calls", "default"], limit=2, wait_s=0.0, claim_id=claim_id)
    return api.ask(call, worker_answers.claimed).jobs


@contextmanager
def _calls_to(server: str, key: str) -> Iterator[ServerConnection]:
    with closing(ServerConnection(ServerSettings(server, key), connections=2)) as connection:
        yield connection


def _worker_key(installation: Installation) -> str:
    with installation.store() as store:
        return store.requesters.create(_WORKER, (Scope.WORKER,)).api_key


def _check_one_attempt_each(installation: Installation) -> None:
    with installation.store() as store:
        lives = read_lives(store)
    check_lives(lives)
    for life in lives.values():
        assert [attempt.outcome for attempt in life.attempts] == ["succeeded"]
    assert installation.leftovers() == []
