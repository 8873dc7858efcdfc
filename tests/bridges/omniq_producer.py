"""A producer of OmniQ: its real client, in a process of its own."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bridges.bridge_process import python_of
from tests.bridges.line_program import CallFailed, LineProgram

SCRIPT = Path(__file__).with_name("omniq_program.py")
TIMEOUT_S = 90.0
PAUSE_S = 0.01
Job = dict[str, Any]


class OmniqProducer:
    def __init__(self, program: LineProgram, queue: str) -> None:
        self._program, self.queue = program, queue

    def call(self, name: str, **fields: Any) -> Any:
        return self._program.call(name, queue=self.queue, **fields)

    def publish(self, payload: object, **options: Any) -> str:
        return str(self.call("publish", payload=payload, **options))

    def job(self, job_id: str) -> Job | None:
        found: Job | None = self.call("get_job", job_id=job_id)
        return found

    def state(self, job_id: str) -> str | None:
        job = self.job(job_id)
        return None if job is None else job["state"]

    def wait_until(self, job_id: str, condition: Callable[[Job], bool]) -> Job:
        """Poll until the condition holds, because OmniQ has no events. Return the job."""
        deadline = time.monotonic() + TIMEOUT_S
        job: Job | None = None
        while time.monotonic() < deadline:
            try:
                job = self.job(job_id)
            except CallFailed:
                job = None  # Redis is restarted
            if job is not None and condition(job):
                return job
            time.sleep(PAUSE_S)
        raise AssertionError(f"not seen in {TIMEOUT_S} s; the job is {job}")

    def wait_for(self, state: str, job_id: str) -> Job:
        return self.wait_until(job_id, lambda job: job["state"] == state)


@contextmanager
def producing(port: int, queue: str = "video-jobs") -> Iterator[OmniqProducer]:
    with LineProgram(python_of("omniq"), SCRIPT, [str(port)]) as program:
        yield OmniqProducer(program, queue)
