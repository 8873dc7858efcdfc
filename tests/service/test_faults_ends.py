"""Attempts that end otherwise than by success: canceled, out of time, handed back, broken."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from euterpe.domain.states import JobStatus
from euterpe.media.child import Child
from euterpe.storage.buckets import BucketDestination
from euterpe.worker.attempt import Attempt
from tests.net.servers import Server
from tests.s3 import S3Server
from tests.service.workshop import LONG_S, Front, Gate, Workshop, working
from tests.storage.servers import Call, Reply, talking


@pytest.fixture(scope="module")
def front(s3: S3Server) -> Front:
    return Front(s3)


@pytest.fixture(scope="module")
def bucket(s3: S3Server, clip: Path) -> Path:
    bucket = s3.bucket("ends")
    (bucket / "clip.mp4").write_bytes(clip.read_bytes())
    return bucket


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, front: Front, bucket: Path) -> Iterator[Workshop]:
    with (
        Server(talking(front)) as server,
        working(tmp_path_factory.mktemp("shop"), server, bucket) as shop,
    ):
        yield shop


@pytest.fixture
def shop(opened: Workshop, front: Front) -> Iterator[Workshop]:
    yield opened
    front.reset()


@pytest.fixture
def ffmpeg(shop: Workshop) -> Gate:
    """Is reached by the next ffmpeg, which is stopped, and so will never end by itself."""
    gate = Gate()

    def hold(child: Child) -> None:
        os.kill(child.pid, signal.SIGSTOP)
        gate.pass_through()

    shop.sandbox.on_ffmpeg = hold
    return gate


def at(front: Front, method: str) -> Gate:
    """Is reached by the next call of this method."""
    gate = Gate()

    def hold(call: Call) -> Reply:
        if call.method == method:
            front.answer = front.honest
            gate.pass_through()
        return front.honest(call)

    front.answer = hold
    return gate


@pytest.mark.parametrize(
    ("phase", "reach"),
    [
        ("fetching", lambda front, _: at(front, "GET")),
        ("processing", lambda _, ffmpeg: ffmpeg),
        ("uploading", lambda front, _: at(front, "PUT")),
    ],
)
def test_a_cancel_stops_the_work_wherever_it_is(
    shop: Workshop,
    s3: S3Server,
    front: Front,
    request: pytest.FixtureRequest,
    phase: str,
    reach: Callable[[Front, Gate | None], Gate],
) -> None:
    held = request.getfixturevalue("ffmpeg") if phase == "processing" else None
    gate = reach(front, held)
    job_id = shop.submit(credentials=shop.keys(s3))
    with gate.held():
        assert shop.store.jobs.get(job_id)["status"] == phase
        shop.store.control.cancel(job_id)
        shop.worker.heart.beat()
    job = shop.end_of(job_id)
    assert (job["status"], job["last_error"]["code"], job["last_error"]["phase"]) == (
        "failed",
        "canceled",
        phase,
    )
