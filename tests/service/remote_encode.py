"""Start an encode in a remote worker, and stop its ffmpeg until the test continues it."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from euterpe.client import Client
from tests.service.installation import Installation, Program
from tests.service.process_table import descendants

_SMALL = {"name": "hls", "type": "hls", "video": {"codec": "h264", "ladder": [90]}}
_POLL_S, _LONGEST_POLLS = 0.05, 1200


def begin_encode(installation: Installation, client: Client) -> str:
    """Submit a job whose encode takes a second or more. Return its id once the worker encodes."""
    job_id = client.submit(installation.request("long.mp4", profile=None, outputs=[_SMALL])).job_id
    assert any(update.status == "processing" for update in client.watch(job_id))
    return job_id


@contextmanager
def stopped_encoder(worker: Program) -> Iterator[None]:
    """Stop the ffmpeg of the worker's only job during the block."""
    ffmpeg = _encoder(worker)
    os.kill(ffmpeg, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(ffmpeg, signal.SIGCONT)


def _encoder(worker: Program) -> int:
    """Wait until the worker has two children, its fork server and ffmpeg. Return the pid of ffmpeg."""
    for _ in range(_LONGEST_POLLS):
        children = descendants(worker.pid)
        if len(children) == 2:
            return children[1]
        threading.Event().wait(_POLL_S)
    raise AssertionError("no encode began")
