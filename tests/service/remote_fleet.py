"""An API process behind a faulty proxy, and simulated workers. Random processes are killed or frozen."""

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import euterpe
from euterpe.crypto import keyfile
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.scopes import Scope
from euterpe.settings import Settings
from euterpe.store.store import Store
from euterpe.wiring.database import open_store
from tests.free_port import free_port
from tests.service.faulty_proxy import FaultyProxy
from tests.service.installation import Program
from tests.service.store.processes.invariants import unfinished
from tests.store.jobs import SPEC, new_job

LEASE_S = 3.0
_WORKERS = 3
_MAX_ATTEMPTS = 6
# A job that succeeds needs at least this many calls: three statuses and the end.
_FEWEST_CALLS = 4
_LONGEST_TRICKLE_S, _MOST_TRICKLED = 0.05, 20
# A job with this pause in each of its four steps takes longer than a lease.
_PAUSE_S = 0.8
_REST_TIMEOUT_S = 300.0
_REPOSITORY = Path(euterpe.__file__).parents[1]


@dataclass
class SimulatedProcess:
    """A worker process. `is_hurt` is True once the worker was killed or frozen: its leases can expire."""

    worker_id: str
    program: Program
    journal: Path
    is_hurt: bool = False
    thaw: threading.Timer | None = None

    def lines(self) -> list[dict[str, Any]]:
        if not self.journal.exists():  # the process was killed before its first claim
            return []
        return [json.loads(line) for line in self.journal.read_text().splitlines()]


@dataclass
class RemoteFleet:
    """A fleet, which `running_fleet` creates. `api` is the module of the API process with its arguments."""

    folder: Path
    store: Store
    environ: dict[str, str]
    random: Random
    proxy: FaultyProxy
    port: int
    api_module: tuple[str, ...] = ("euterpe",)
    rest_timeout_s: float = _REST_TIMEOUT_S
    workers: list[SimulatedProcess] = field(default_factory=list)
    disturbances: Counter[str] = field(default_factory=Counter)
    api_log: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.requester_id = self.store.requesters.create("newsroom").requester_id
        self.worker_key = self.store.requesters.create("fleet", (Scope.WORKER,)).api_key
        self._start_api()
        for _ in range(_WORKERS):
            self._start_worker()

    def _start_api(self) -> None:
        arguments = ("api", "--port", str(self.port))
        self.api = Program(arguments, self.environ, self.folder, module=self.api_module)

    def _start_worker(self) -> None:
        name = f"w{len(self.workers)}-{self.random.randrange(10**6)}"
        journal = self.folder / f"{name}.jsonl"
        environ = {**self.environ, "EUTERPE_SERVER": self.proxy.url, "EUTERPE_API_KEY": self.worker_key}
        module = ("tests.service.simulated_worker",)
        program = Program((name, str(journal)), environ, self.folder, module=module)
        self.workers.append(SimulatedProcess(name, program, journal))

    # -- the run

    def run(self, jobs: int, disturbances: int) -> None:
        """Enqueue the jobs in parts, and wait until all jobs have ended.

        Between two parts, kill the API, or kill or freeze a worker.
        """
        parts = [jobs // (disturbances + 1)] * disturbances
        kinds = [self.kill_api, self.kill_worker, self.freeze_worker] * disturbances
        kinds = kinds[:disturbances]
        self.random.shuffle(kinds)
        for count, disturb in zip(parts, kinds, strict=True):
            trickled = min(count // 2, _MOST_TRICKLED)
            self._trickle(trickled)
            self.enqueue(count - trickled)
            self.proxy.await_calls(self.random.randint(1, _FEWEST_CALLS * count // 2))
            disturb()
        self.enqueue(jobs - sum(parts))
        self._await_rest()

    def enqueue(self, count: int) -> None:
        for begin in range(0, count, 100):
            new = [self._job() for _ in range(min(100, count - begin))]
            self.store.enqueue.many(new)

    def _trickle(self, count: int) -> None:
        """Enqueue jobs one by one, about as fast as they are finished, so that workers wait in long polls."""
        for _ in range(count):
            self.enqueue(1)
            time.sleep(self.random.random() * _LONGEST_TRICKLE_S)

    def _job(self) -> Any:
        """Return a job whose metadata controls its attempts: some fail, and some take longer than a lease."""
        draw = self.random.random()
        failures, code = 0, ErrorCode.SOURCE_UNREACHABLE
        if draw < 0.15:
            failures = 1 if draw < 0.12 else 2
        elif draw < 0.20:
            failures, code = (99, code) if draw < 0.17 else (1, ErrorCode.SOURCE_NOT_MEDIA)
        pause_s = _PAUSE_S if draw > 0.97 else 0.0
        metadata = {"failures": failures, "code": code.value, "pause_s": pause_s}
        # The jobs that take longest begin first, so that the run does not wait for a few jobs at its end.
        is_long = pause_s > 0 or failures > 2
        return new_job(
            requester_id=self.requester_id,
            max_attempts=_MAX_ATTEMPTS,
            priority=80 if is_long else 50,
            spec={**SPEC, "metadata": metadata},
        )

    def _await_rest(self) -> None:
        deadline = time.monotonic() + self.rest_timeout_s
        while unfinished(self.store):
            assert time.monotonic() < deadline, "some jobs do not end"
            self._check_processes()
            time.sleep(0.1)

    def _check_processes(self) -> None:
        assert self.api.is_running, "".join(self.api.log[-20:])
        for worker in self.workers:
            assert worker.is_hurt or worker.program.is_running, "".join(worker.program.log[-20:])

    # -- disturbances

    def kill_api(self) -> None:
        self.api.kill()
        self.api_log += self.api.log
        self.disturbances["api_kills"] += 1
        self._start_api()

    def kill_worker(self) -> None:
        worker = self._victim()
        worker.is_hurt = True
        worker.program.kill()
        self.disturbances["worker_kills"] += 1
        self._start_worker()

    def freeze_worker(self) -> None:
        """Stop a worker by SIGSTOP until its leases have expired. Return at once."""
        worker = self._victim()
        worker.is_hurt = True
        os.kill(worker.program.pid, signal.SIGSTOP)
        self.disturbances["worker_freezes"] += 1
        worker.thaw = threading.Timer(LEASE_S * (1.1 + 0.4 * self.random.random()), self._thaw, (worker,))
        worker.thaw.start()

    def _thaw(self, worker: SimulatedProcess) -> None:
        if worker.program.is_running:
            os.kill(worker.program.pid, signal.SIGCONT)

    def _victim(self) -> SimulatedProcess:
        """Return a running worker.

        First wait until no worker is frozen, so that at least one worker always runs.
        """
        for worker in self.workers:
            if worker.thaw is not None:
                worker.thaw.join()
        return self.random.choice([worker for worker in self.workers if worker.program.is_running])

    # -- the end

    def stop_workers(self) -> None:
        """Drain all workers. The proxy adds no faults during the drain."""
        self.proxy.has_faults = False
        for worker in self.workers:
            if worker.thaw is not None:
                worker.thaw.join()
        running = [worker.program for worker in self.workers if worker.program.is_running]
        for program in running:
            os.kill(program.pid, signal.SIGTERM)
        for program in running:
            assert program.wait() == 0, "".join(program.log[-20:])

    def replay(self, sample: int) -> int:
        """Restart the API, and report some ends again.

        Then send a contradicting report for each of these ends. The API must refuse this report. The proxy
        records the answers to the repeated ends. Return the number of these ends.
        """
        self.kill_api()
        self.api.address()
        ends = list(self.proxy.ends.values())
        chosen: Sequence[Any] = self.random.sample(ends, min(sample, len(ends)))
        self.proxy.send_again(chosen)
        for status, document in self.proxy.contradict(chosen):
            refusal = (status, document.get("code"))
            assert refusal in ((409, "attempt_ended"), (409, "lease_lost")), f"same-answer: {document}"
        return len(chosen)

    def close(self) -> None:
        for worker in self.workers:
            if worker.thaw is not None:
                worker.thaw.cancel()
            if worker.program.is_running:
                worker.program.kill()
        self.proxy.close()
        if self.api.is_running:
            self.api.kill()
        self.api_log += self.api.log


@contextmanager
def running_fleet(
    folder: Path, url: str, *, seed: int, api_module: tuple[str, ...] = ("euterpe",)
) -> Iterator[RemoteFleet]:
    keks = folder / "keks.json"
    keyfile.add_key(keks)
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(_REPOSITORY),
        "EUTERPE_DATABASE_URL": url,
        "EUTERPE_KEK_FILE": str(keks),
        "EUTERPE_WORK_DIR": str(folder / "work"),
        "EUTERPE_LEASE_TTL_MS": str(int(LEASE_S * 1000)),
        "EUTERPE_BACKOFF_BASE_MS": "50",
        "EUTERPE_BACKOFF_CAP_MS": "500",
        "EUTERPE_LOG_LEVEL": "warning",
    }
    port = free_port()
    with open_store(Settings(database_url=url, kek_file=str(keks))) as store:
        proxy = FaultyProxy(port, seed=seed)
        fleet = RemoteFleet(folder, store, environ, Random(seed), proxy, port, api_module)
        try:
            fleet.start()
            yield fleet
        finally:
            fleet.close()
