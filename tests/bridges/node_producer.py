"""A producer of BullMQ in Node (`Queue` and `QueueEvents` of the npm package). It reads commands as lines."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.node import node_command, node_env

SCRIPT = Path(__file__).with_name("producer.js")
TIMEOUT_S = 90.0
Event = Mapping[str, Any]


class NodeProducer:
    def __init__(self, url: str, queue: str = "video-jobs") -> None:
        self._process = subprocess.Popen(
            node_command(SCRIPT),
            env=node_env({"VIDEOS_URL": url, "QUEUE": queue}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.events: list[Event] = []
        self._answers: list[Event] = []
        self._changed = threading.Condition()
        self._is_ready = self._has_ended = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def await_start(self) -> None:
        self._until(lambda: self._is_ready)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            with self._changed:
                if "event" in said:
                    self.events.append(said)
                elif "ready" in said:
                    self._is_ready = True
                else:
                    self._answers.append(said)
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _until(self, condition: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            found = self._changed.wait_for(
                lambda: condition() or self._has_ended, max(0.0, deadline - time.monotonic())
            )
            assert found, f"not seen in {timeout_s} s; the events were {self.events[-20:]}"
            assert condition(), f"the producer has ended; the events were {self.events[-20:]}"

    def call(self, name: str, **fields: Any) -> Any:
        assert self._process.stdin is not None
        with self._changed:
            self._answers.clear()
        self._process.stdin.write(json.dumps({"call": name, **fields}) + "\n")
        self._process.stdin.flush()
        self._until(lambda: self._answers)
        answer = self._answers[0]
        assert "error" not in answer, answer
        return answer["answer"]

    def add(self, data: object, name: str = "transcode", **opts: Any) -> str:
        (job_id,) = self.add_all([(name, data, opts)])
        return job_id

    def add_all(self, jobs: Sequence[tuple[str, object, Mapping[str, Any]]]) -> list[str]:
        return list(self.call("add", jobs=jobs))

    def job(self, job_id: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.call("job", id=job_id)
        return found

    def of(self, event: str, job_id: str) -> list[Event]:
        with self._changed:
            return [one for one in self.events if one["event"] == event and one.get("jobId") == job_id]

    def count(self, event: str) -> int:
        """Return how many events of this kind the producer has seen, for all jobs."""
        with self._changed:
            return sum(one["event"] == event for one in self.events)

    def wait_for(self, event: str, job_id: str, count: int = 1) -> list[Event]:
        """Wait until the job has `count` events of this kind, and return them."""
        self._until(
            lambda: sum(one["event"] == event and one.get("jobId") == job_id for one in self.events) >= count
        )
        return self.of(event, job_id)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def producing(url: str, queue: str = "video-jobs") -> Iterator[NodeProducer]:
    producer = NodeProducer(url, queue)
    try:
        producer.await_start()
        yield producer
    finally:
        producer.close()
