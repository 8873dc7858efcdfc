"""Test how the programs start and stop as processes: ports, drain, signals, exit codes."""

import os
import signal
import socket

import pytest

from euterpe.client import Client, Invalid
from euterpe.domain.spec import parse_spec
from tests.service.installation import Installation

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def test_api_worker_and_dispatcher_work_as_three_programs(installation: Installation) -> None:
    api = installation.start("api", "--port", "0")
    worker, dispatcher = installation.start("worker"), installation.start("dispatcher")
    with Client(api.address(), installation.api_key) as client:
        job = client.submit(installation.request("clip.mp4", profile="audio-aac"))
        installation.receiver.await_event(job.job_id, "job.succeeded")
    assert [program.stop() for program in (api, worker, dispatcher)] == [0, 0, 0]
    assert installation.leftovers() == []


def test_a_dry_run_shows_the_plan_and_leaves_nothing(installation: Installation) -> None:
    api = installation.start("api", "--port", "0")
    with Client(api.address(), installation.api_key) as client:
        plan = client.dry_run(installation.request("clip.mp4", profile="player-page"))
        assert plan["is_exact"]
        assert all(output["tracks"] for output in plan["outputs"])
        with pytest.raises(Invalid, match="source_not_found"):
            client.dry_run(installation.request("none.mp4", profile="player-page"))
        assert list(client.jobs()) == []
    assert api.stop() == 0
    assert installation.leftovers() == []


def test_a_drain_lets_a_job_that_is_under_way_finish(installation: Installation) -> None:
    program = installation.start("serve", "--port", "0")
    with Client(program.address(), installation.api_key) as client:
        job = client.submit(installation.request("clip.mp4"))
        installation.receiver.await_event(job.job_id, "job.fetching")
    assert program.stop() == 0
    with installation.store() as store:
        row = store.jobs.get(job.job_id)
    assert (row.status, row.attempt_count) == ("succeeded", 1)


def test_a_drain_that_takes_too_long_hands_the_job_back_with_its_attempt(installation: Installation) -> None:
    program = installation.start("serve", "--port", "0", EUTERPE_DRAIN_TIMEOUT_MS="0")
    with Client(program.address(), installation.api_key) as client:
        job = client.submit(installation.request("long.mp4"))
        installation.receiver.await_event(job.job_id, "job.processing")
    assert program.stop() == 0
    with installation.store() as store:
        row = store.jobs.get(job.job_id)
    assert (row.status, row.attempt_count, row.worker_id) == ("queued", 0, None)
    assert installation.leftovers() == []


def test_a_second_signal_ends_at_once(installation: Installation) -> None:
    program = installation.start("serve", "--port", "0")
    with Client(program.address(), installation.api_key) as client:
        job = client.submit(installation.request("long.mp4"))
        installation.receiver.await_event(job.job_id, "job.processing")
    os.kill(program.pid, signal.SIGTERM)
    program.await_log("draining")
    assert program.stop() == 128 + signal.SIGTERM


def test_a_taken_port_is_one_line_and_starts_nothing(installation: Installation) -> None:
    first = installation.start("api", "--port", "0")
    address = first.address()
    with Client(address, installation.api_key) as client:
        job = client.submit(installation.request("clip.mp4"))
        second = installation.start("serve", "--port", address.rpartition(":")[2])
        assert second.wait() == 1
        assert "cannot be listened on" in second.log[-1]
        assert client.status(job.job_id).status == "queued"
    assert first.stop() == 0


def test_nothing_is_claimed_while_the_api_still_answers(installation: Installation) -> None:
    """During a drain, the worker must claim no job, even while the API still handles a slow request."""
    program = installation.start("serve", "--port", "0")
    address = program.address()
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as slow:
        head = f"POST /transcode HTTP/1.1\r\nhost: x\r\nx-api-key: {installation.api_key}\r\n"
        slow.sendall(f"{head}content-type: application/json\r\ncontent-length: 100\r\n\r\n{{".encode())
        with Client(address, installation.api_key) as client:
            assert list(client.jobs()) == []  # the answer shows that the server accepts requests
        os.kill(program.pid, signal.SIGTERM)
        program.await_log("draining")
        with installation.store() as store:
            job_id = (
                store.submit(parse_spec(installation.request("clip.mp4")), installation.requester_id)
                .result()
                .job_id
            )
            assert program.wait() == 0
            assert store.jobs.get(job_id).status == "queued"


def test_serve_without_a_schema_says_what_to_run(installation: Installation) -> None:
    program = installation.start("serve", EUTERPE_DATABASE_URL="sqlite:///not-there.db")
    assert program.wait() == 1
    assert program.log[-1].startswith("error: ")
    assert "euterpe migrate" in program.log[-1]
