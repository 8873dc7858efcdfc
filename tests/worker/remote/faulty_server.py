"""A server that answers claims with jobs, and loses requests and answers."""

import threading
from random import Random
from typing import Any

from tests.client.scripted_server import Answer, Disconnect, Reply, Request, problem
from tests.worker.remote.answers import job


class FaultyServer:
    """A server that answers new claims with each of `job_ids` once, and repeated claims with the same jobs.

    Half of all requests fail: a quarter before the server executes them, and a quarter after the execution.
    """

    def __init__(self, job_ids: list[str], *, seed: int) -> None:
        self._ready, self._random, self._lock = list(job_ids), Random(seed), threading.Lock()
        self._claims: dict[str, list[str]] = {}
        self.ended: set[str] = set()
        self.released: list[str] = []
        self.faults = 0

    def __call__(self, request: Request) -> Reply:
        with self._lock:
            fault = self._random.choice(["before", "after", None, None])
            self.faults += fault is not None
            if fault == "before":
                return Disconnect() if self._random.random() < 0.5 else problem(503, "stopping")
            answer = self._act(request.path.rpartition("/")[2], request.json)
            return Disconnect() if fault == "after" else answer

    def _act(self, name: str, values: dict[str, Any]) -> Answer:
        match name:
            case "claim":
                return self._claim(values["claim_id"], values["max_jobs"])
            case "complete":
                self.ended.add(values["job_id"])
                return Answer(200, {"ok": True, "ack": True})
            case "heartbeat":
                return Answer(
                    200, {"leases": [{"job_id": row["job_id"], "ok": True} for row in values["leases"]]}
                )
            case "release":
                self.released += self._claims.pop(values["claim_id"], [])
                return Answer(200, {"ok": True, "ack": True, "requeued": True})
        raise AssertionError(name)

    def _claim(self, claim_id: str, limit: int) -> Answer:
        if claim_id not in self._claims and self._ready:
            self._claims[claim_id], self._ready = self._ready[:limit], self._ready[limit:]
        rows = [job(job_id) for job_id in self._claims.get(claim_id, [])]
        return Answer(200, {**rows[0], "jobs": rows} if rows else {"claimed": False})
