"""A worker in the test's own process, on real parts: an SQLite store, ffmpeg, and S3 behind a front."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.keyring import LocalKeyRing
from euterpe.domain.retry import Backoff
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import FINISHED, JobStatus
from euterpe.media.child import Child
from euterpe.media.sandbox import Sandbox
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.settings import Settings
from euterpe.storage.storage import Storage
from euterpe.store.engine.wakeup import Topic
from euterpe.store.store import Store
from euterpe.wiring.services import minimum_pace, storage_policy, worker_tools
from euterpe.worker.attempt import Tools
from euterpe.worker.blame import ReleasePolicy
from euterpe.worker.disk import DiskLedger
from euterpe.worker.workdir import WorkDir, free_bytes_of
from euterpe.worker.worker import Worker
from tests.engines import Sqlite
from tests.net.servers import Authority, Server
from tests.s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server
from tests.service.process_table import at_home_in
from tests.storage.fake_stores import Answer, Call, Reply, forward_to

LONG_S = 60.0
SMALL_PART = 2048
LOOPBACK = ("127.0.0.0/8", "::1/128")
SOUND = {"outputs": [{"name": "sound", "type": "m4a", "audio": {"codec": "aac", "bitrate_kbps": 64}}]}


class S3Proxy:
    """Before the real store. It lets everything through until a test says what is to go wrong."""

    def __init__(self, s3: S3Server) -> None:
        self._s3 = s3
        self.reset()

    def reset(self) -> None:
        self.behind = self._s3.endpoint
        self.answer: Answer = self.honest
        self.calls: list[tuple[str, str]] = []  # method and target

    def honest(self, call: Call) -> Reply:
        return forward_to(self.behind)(call)

    def __call__(self, call: Call) -> Reply:
        self.calls.append((call.method, call.target))
        return self.answer(call)

    def gate(self, method: str, part: str = "") -> "Gate":
        """Is reached by the next such call."""
        gate = Gate()

        def hold(call: Call) -> Reply:
            forward = forward_to(self.behind)
            if call.method == method and part in call.target:
                self.answer = self.honest
                gate.pass_through()
            return forward(call)

        self.answer = hold
        return gate

    def count(self, method: str, part: str = "") -> int:
        return sum(1 for made, target in self.calls if made == method and part in target)


class Gate:
    """Holds a call until the test has done what it wants to do meanwhile."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def pass_through(self) -> None:
        self._reached.set()
        assert self._open.wait(LONG_S), "nobody opened the gate"

    @contextmanager
    def held(self) -> Iterator[None]:
        """From when the call is there until the end of the block."""
        try:
            assert self._reached.wait(LONG_S), "nothing came to the gate"
            yield
        finally:
            self._open.set()


class FakeDisk:
    """The free space of a work directory, as a test sets it; None: as it is."""

    def __init__(self) -> None:
        self.free: int | None = None
        self.looked = threading.Semaphore(0)

    def __call__(self, folder: Path) -> int:
        self.looked.release()
        return free_bytes_of(folder) if self.free is None else self.free


class WatchedSandbox(Sandbox):
    """The real one; the next ffmpeg that starts is handed to `on_ffmpeg`."""

    on_ffmpeg: Callable[[Child], None] | None = None
    _breaks_at, _breaks_left, _breaks_now = "", 0, False

    def break_helper(self, phase: str, times: int = 1) -> None:
        """Kill the helper process under the next children of a phase: "encode", "probe" or "inspect"."""
        self._breaks_at, self._breaks_left = phase, times

    def kill_helper(self) -> None:
        assert self._helper is not None
        self._helper.kill()
        self._helper.wait()

    def run(self, *args: Any, **kwargs: Any) -> Child:
        child = super().run(*args, **kwargs)
        if self.on_ffmpeg is not None:
            handle, self.on_ffmpeg = self.on_ffmpeg, None
            handle(child)
        if self._breaks_at == "encode" and self._breaks_left:
            self._breaks_left -= 1
            _stop_once_bound(child.pid)
            self.kill_helper()
        return child

    def call(self, task: str, *args: Any, **kwargs: Any) -> Any:
        if self._breaks_at == task and self._breaks_left:
            self._breaks_left -= 1
            self._breaks_now = True
        return super().call(task, *args, **kwargs)

    def _send(self, fds: Sequence[int]) -> None:
        if not self._breaks_now:
            return super()._send(fds)
        self._breaks_now = False
        assert self._helper is not None
        # A child that looks into a small file is faster than any signal: its helper never begins with it.
        os.kill(self._helper.pid, signal.SIGSTOP)
        super()._send(fds)
        return self.kill_helper()


def _stop_once_bound(pid: int) -> None:
    """Stop a child that dies with its helper from here on: it blocks its signals right after that."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        status = Path(f"/proc/{pid}/status").read_text().partition("SigBlk:")[2].split()[0]
        if int(status, 16) >> (signal.SIGTERM - 1) & 1:
            return
        os.kill(pid, signal.SIGCONT)


class WorkerHarness:
    def __init__(
        self, tools: Tools, worker: Worker, bucket: Path, endpoint: str, authority: Authority
    ) -> None:
        self.tools, self.store, self.worker = tools, tools.store, worker
        self.bucket, self.endpoint, self.authority = bucket, endpoint, authority
        made = self.store.requesters.create("newsroom")
        self.requester_id, self.webhook_secret = made.requester_id, made.webhook_secret

    @property
    def sandbox(self) -> WatchedSandbox:
        assert isinstance(self.tools.sandbox, WatchedSandbox)
        return self.tools.sandbox

    @property
    def keys(self) -> dict[str, str]:
        """To S3 by way of the front."""
        return {
            "type": "s3",
            "access_key_id": ACCESS_KEY_ID,
            "secret_access_key": SECRET_ACCESS_KEY,
            "region": "us-east-1",
            "endpoint": self.endpoint,
        }

    def stop_soon(self) -> threading.Thread:
        """The worker drains; what it has under way may take its time."""
        thread = threading.Thread(target=self.worker.stop, kwargs={"drain_s": LONG_S})
        thread.start()
        return thread

    def submit(self, source: str | Mapping[str, str] = "clip.mp4", **fields: Any) -> str:
        url = {"url": f"s3://{self.bucket.name}/{source}"} if isinstance(source, str) else source
        output = {"url": f"s3://{self.bucket.name}/out/"}
        document = {"source": url, "output": output, **SOUND, **fields}
        spec = parse_spec(document)
        return self.store.submit(spec, self.requester_id).result(LONG_S).job_id

    def reaches(self, job_id: str, *statuses: JobStatus) -> dict[str, Any]:
        """The job once it has one of these."""
        with closing(self.store.database.listen(Topic.INBOX)) as commits:
            while (job := self.store.jobs.get(job_id))["status"] not in statuses:
                assert commits.wait(LONG_S), f"the job stays {job['status']}"
        return job

    def end_of(self, job_id: str) -> dict[str, Any]:
        """The job when it is over; of its attempts nothing is left by then."""
        job = self.reaches(job_id, *FINISHED)
        assert (job["lease_expires_at"], job["worker_id"]) == (None, None), "no-lease-at-rest"
        self.assert_nothing_left(job_id)
        return job

    def assert_nothing_left(self, job_id: str) -> None:
        work = self.tools.workdir.path
        assert list(work.glob(f"{job_id}-*")) == [], "nothing-left: files"
        assert at_home_in(work) == [], "nothing-left: processes"

    def codes(self, job_id: str) -> list[str | None]:
        """What each attempt ended with."""
        errors = [attempt["error"] for attempt in self.store.jobs.attempts(job_id)]
        return [error and error["code"] for error in errors]


@contextmanager
def working(
    folder: Path, proxy: Server, bucket: Path, disk: FakeDisk | None = None, **settings: Any
) -> Iterator[WorkerHarness]:
    """Drained at the end."""
    endpoint = f"http://{proxy.pair}"
    plan: dict[str, Any] = {
        "work_dir": folder / "work",
        "storage_endpoints": (endpoint,),
        "egress_allow": LOOPBACK,
        "min_free_bytes": 0,
        "worker_slots": 2,
        **settings,
    }
    authority = Authority(folder)
    ring = LocalKeyRing(KeySet(where="the workshop", active="k1", keys={"k1": b"1" * 32}))
    with ExitStack() as open_parts:
        enter = open_parts.enter_context
        url = enter(Sqlite(folder).fresh())
        store = enter(Store(url, ring, backoff=Backoff(20, 100, 20), sweep_every_ms=0))
        egress = enter(Egress(EgressPolicy(LOOPBACK), ssl_context=authority.client_context()))
        chosen = Settings(**plan)
        tools = worker_tools(chosen, store, egress)
        workdir = WorkDir(plan["work_dir"], free_bytes=disk or free_bytes_of)
        # The outputs of the tests are small, and go in parts all the same.
        storage = Storage(storage_policy(chosen), egress, pace=minimum_pace(chosen), part_bytes=SMALL_PART)
        tools = replace(
            tools,
            sandbox=WatchedSandbox(tools.sandbox.ffmpeg),
            storage=storage,
            workdir=workdir,
            disk=DiskLedger(
                workdir.free_bytes, slots=plan["worker_slots"], min_free_bytes=plan["min_free_bytes"]
            ),
            release_policy=ReleasePolicy(first_pause_ms=20, longest_pause_ms=100),
        )
        # A retry is due within milliseconds, and nothing but the poll finds it.
        enter(pytest.MonkeyPatch.context()).setattr("euterpe.worker.worker._POLL_S", (0.02, 0.05))
        worker = Worker(tools, "w1", slots=plan["worker_slots"])
        worker.start()
        open_parts.callback(worker.stop, drain_s=LONG_S)
        yield WorkerHarness(tools, worker, bucket, endpoint, authority)
