"""Run a worker in the process of the test, with an SQLite store, ffmpeg, and S3 behind a proxy."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from euterpe.control.refresher import Refresher
from euterpe.control.store_plane import StorePlane
from euterpe.domain.release_limits import ReleaseLimits
from euterpe.domain.retry import Backoff
from euterpe.domain.rows import JobRow
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import FINISHED, JobStatus
from euterpe.media.sandbox.child import Child
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.runtime.disk_space import free_bytes
from euterpe.settings import Settings
from euterpe.storage.buckets import LEAST_EARLY
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import TransferRetry
from euterpe.store.engine.wakeup import Topic
from euterpe.store.store import Store
from euterpe.wiring.worker import minimum_pace, storage_policy, worker_tools
from euterpe.worker.credentials import DEFAULT_TIMINGS, RefreshTimings
from euterpe.worker.disk import DiskLedger
from euterpe.worker.head_start import DEFAULT_TIMINGS as HEAD_START_TIMINGS
from euterpe.worker.head_start import HeadStartTimings
from euterpe.worker.kept_sources import KeptSources
from euterpe.worker.tools import Tools
from euterpe.worker.workdir import WorkDir
from euterpe.worker.worker import Worker, WorkerTimings
from tests.engines import Sqlite
from tests.key_providers import checked_ring
from tests.net.servers import Authority, Server
from tests.s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server
from tests.service.process_table import at_home_in, descendants
from tests.storage.fake_stores import Answer, Call, Reply, forward_to

TIMEOUT_S = 60.0
SMALL_PART = 2048
LOOPBACK = ("127.0.0.0/8", "::1/128")
SOUND = {"outputs": [{"name": "sound", "type": "m4a", "audio": {"codec": "aac", "bitrate_kbps": 64}}]}


class S3Proxy:
    """A proxy in front of the real object store. The proxy forwards all calls until a test sets `answer`."""

    def __init__(self, s3: S3Server) -> None:
        self._s3 = s3
        self.reset()

    def reset(self) -> None:
        self.upstream = self._s3.endpoint
        self.answer: Answer = self.forward
        self.calls: list[tuple[str, str]] = []  # method and target

    def forward(self, call: Call) -> Reply:
        return forward_to(self.upstream)(call)

    def __call__(self, call: Call) -> Reply:
        self.calls.append((call.method, call.target))
        return self.answer(call)

    def gate(self, method: str, part: str = "") -> "Gate":
        """Return a gate that holds the next call with this method and with `part` in its target."""
        gate = Gate()

        def hold(call: Call) -> Reply:
            answer = forward_to(self.upstream)
            if call.method == method and part in call.target:
                self.answer = self.forward
                gate.pass_through()
            return answer(call)

        self.answer = hold
        return gate

    def count(self, method: str, part: str = "") -> int:
        return sum(1 for made, target in self.calls if made == method and part in target)


class Gate:
    """A gate that blocks a call in another thread while the test runs the block of `held`."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def pass_through(self) -> None:
        self._reached.set()
        assert self._open.wait(TIMEOUT_S), "the gate was not opened"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the call, and hold it until the end of the block."""
        try:
            assert self._reached.wait(TIMEOUT_S), "no call reached the gate"
            yield
        finally:
            self._open.set()


class FakeDisk:
    """The free space of a work directory, which a test can set. `None` means the real free space."""

    def __init__(self) -> None:
        self.free: int | None = None
        self.measured = threading.Semaphore(0)

    def __call__(self, folder: Path) -> int:
        self.measured.release()
        return free_bytes(folder) if self.free is None else self.free


class WatchedSandbox(Sandbox):
    """The real sandbox, which calls `on_ffmpeg` with the next ffmpeg that it starts."""

    on_ffmpeg: Callable[[Child], None] | None = None
    on_child: Callable[[str, Child], None] | None = None
    _breaks_at, _breaks_left, _breaks_now = "", 0, False

    def stop_next(self, step: str, then: Callable[[int], object]) -> None:
        """Send SIGSTOP to the next child that runs `step`, and call `then` with the child's pid.

        `step` is the name of a sandbox task, or "ffmpeg". `then` is also called if the child ends before it
        can be stopped, which is possible with a small file.
        """

        def stop(found: str, child: Child) -> None:
            if found == step:
                self.on_child = None
                with suppress(ProcessLookupError, FileNotFoundError):
                    _stop_once_bound_to_helper(child.pid)
                then(child.pid)

        self.on_child = stop

    def children(self) -> list[int]:
        """Return the processes of the helper that have not ended."""
        return [] if self._helper is None else descendants(self._helper.pid)

    def _start_child(self, order: dict[str, Any], *args: Any) -> Child:
        child = super()._start_child(order, *args)
        if self.on_child is not None:
            self.on_child(order.get("task", "ffmpeg"), child)
        return child

    def break_helper(self, phase: str, times: int = 1) -> None:
        """Kill the helper during the next `times` children of `phase` ("encode", "probe" or "inspect")."""
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
            _stop_once_bound_to_helper(child.pid)
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
        # A child that probes a small file can end before a signal arrives, so stop the helper before it
        # forks.
        os.kill(self._helper.pid, signal.SIGSTOP)
        super()._send(fds)
        return self.kill_helper()


def _stop_once_bound_to_helper(pid: int) -> None:
    """Stop a child after it has set its parent-death signal.

    A child sets this signal before it blocks SIGTERM. So a child that blocks SIGTERM has set it.
    """
    while True:
        os.kill(pid, signal.SIGSTOP)
        status = Path(f"/proc/{pid}/status").read_text().partition("SigBlk:")[2].split()[0]
        if int(status, 16) >> (signal.SIGTERM - 1) & 1:
            return
        os.kill(pid, signal.SIGCONT)


class EncryptionGate:
    """A hook that calls a function when this process itself, without a child, begins to encrypt a segment.

    The hook runs in the thread of the attempt, just after the thread has opened the unfinished file.
    """

    _instance: ClassVar["EncryptionGate | None"] = None

    def __init__(self) -> None:
        self._then: Callable[[], object] | None = None
        sys.addaudithook(self._on_event)

    @classmethod
    def of_process(cls) -> "EncryptionGate":
        """Return the only instance, because Python cannot remove an audit hook."""
        cls._instance = cls._instance or cls()
        return cls._instance

    def call_next(self, then: Callable[[], object] | None) -> None:
        self._then = then

    def _on_event(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._then is not None and event == "open" and arguments[0] == ".encrypted":
            then, self._then = self._then, None
            then()


class ShiftedClock:
    """A monotonic clock that a test can advance."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._ahead_s

    def advance(self, seconds: float) -> None:
        self._ahead_s += seconds


class WorkerHarness:
    def __init__(
        self,
        tools: Tools,
        store: Store,
        worker: Worker,
        bucket: Path,
        endpoint: str,
        *,
        authority: Authority,
        clock: ShiftedClock,
    ) -> None:
        self.tools, self.store, self.worker, self.clock = tools, store, worker, clock
        self.bucket, self.endpoint, self.authority = bucket, endpoint, authority
        created = self.store.requesters.create("newsroom")
        self.requester_id, self.webhook_secret = created.requester_id, created.webhook_secret

    @property
    def sandbox(self) -> WatchedSandbox:
        assert isinstance(self.tools.sandbox, WatchedSandbox)
        return self.tools.sandbox

    @property
    def keys(self) -> dict[str, str]:
        """Return credentials for S3 at the endpoint of the proxy."""
        return {
            "type": "s3",
            "access_key_id": ACCESS_KEY_ID,
            "secret_access_key": SECRET_ACCESS_KEY,
            "region": "us-east-1",
            "endpoint": self.endpoint,
        }

    def stop_in_background(self) -> threading.Thread:
        """Drain the worker in a thread.

        The drain has enough time to finish all attempts. Return the thread.
        """
        thread = threading.Thread(target=self.worker.stop, kwargs={"drain_s": TIMEOUT_S})
        thread.start()
        return thread

    def submit(self, source: str | Mapping[str, str] = "clip.mp4", **fields: Any) -> str:
        url = {"url": f"s3://{self.bucket.name}/{source}"} if isinstance(source, str) else source
        output = {"url": f"s3://{self.bucket.name}/out/"}
        document = {"source": url, "output": output, **SOUND, **fields}
        spec = parse_spec(document)
        return self.store.submit(spec, self.requester_id).result(TIMEOUT_S).job_id

    def await_status(self, job_id: str, *statuses: JobStatus) -> JobRow:
        """Return the job once it has one of these statuses."""
        with closing(self.store.database.listen(Topic.INBOX)) as commits:
            while (job := self.store.jobs.get(job_id)).status not in statuses:
                assert commits.wait(TIMEOUT_S), f"the job stays {job.status}"
        return job

    def await_end(self, job_id: str) -> JobRow:
        """Return the job once it is finished. Check that the job left no lease, files or processes."""
        job = self.await_status(job_id, *FINISHED)
        assert (job.lease_expires_at, job.worker_id) == (None, None), "no-lease-at-rest"
        self.assert_nothing_left(job_id)
        return job

    def assert_nothing_left(self, job_id: str) -> None:
        work = self.tools.workdir.path
        assert list(work.glob(f"{job_id}-*")) == [], "nothing-left: files"
        assert job_id not in self.tools.kept, "nothing-left: a kept source"
        assert at_home_in(work) == [], "nothing-left: processes"

    def error_codes(self, job_id: str) -> list[str | None]:
        """Return the error code of each attempt, `None` for a success."""
        return [attempt.error_code for attempt in self.store.jobs.attempts(job_id)]


@contextmanager
def run_worker(
    folder: Path,
    proxy: Server,
    bucket: Path,
    disk: FakeDisk | None = None,
    *,
    refresh_timings: RefreshTimings = DEFAULT_TIMINGS,
    refresh_deadline_s: float = 10.0,
    head_start_timings: HeadStartTimings = HEAD_START_TIMINGS,
    pool: Executor | None = None,
    least_early_bytes: int = LEAST_EARLY,
    **overrides: Any,
) -> Iterator[WorkerHarness]:
    """Run a worker with these settings, and drain it at the end."""
    endpoint = f"http://{proxy.pair}"
    values: dict[str, Any] = {
        "work_dir": folder / "work",
        "storage_endpoints": (endpoint,),
        "egress_allow": LOOPBACK,
        "min_free_bytes": 0,
        "worker_slots": 2,
        **overrides,
    }
    authority = Authority(folder)
    with ExitStack() as open_parts:
        enter = open_parts.enter_context
        url = enter(Sqlite(folder).fresh())
        store = enter(
            Store(
                url,
                checked_ring(),
                backoff=Backoff(20, 100, 20),
                release_limits=ReleaseLimits(
                    first_pause_ms=20, longest_pause_ms=100, least_bounded=2, elsewhere_ms=0, one_worker_ms=0
                ),
                sweep_every_ms=0,
            )
        )
        egress = enter(Egress(EgressPolicy(LOOPBACK), ssl_context=authority.client_context()))
        settings = Settings(**values)
        refresher = Refresher(
            store,
            egress,
            max_refreshes=settings.refresh_max_attempts,
            call_deadline_s=refresh_deadline_s,
        )
        plane = StorePlane(store, refresher, "w1")
        tools = worker_tools(settings, plane, egress)
        workdir = WorkDir(values["work_dir"], free_bytes=disk or free_bytes)
        kept = KeptSources(workdir)
        # The parts are small, so that the small outputs of the tests are also uploaded in parts.
        storage = Storage(
            storage_policy(settings),
            egress,
            pace=minimum_pace(settings),
            part_bytes=SMALL_PART,
            least_early_bytes=least_early_bytes,
            retry=TransferRetry(first_pause_s=0.001),
        )
        tools = replace(
            tools,
            sandbox=WatchedSandbox(tools.sandbox.ffmpeg),
            storage=storage,
            workdir=workdir,
            disk=DiskLedger(
                workdir.free_bytes,
                slots=values["worker_slots"],
                min_free_bytes=values["min_free_bytes"],
                kept=kept,
            ),
            kept=kept,
            refresh_timings=refresh_timings,
            head_start_timings=head_start_timings,
        )
        # A retry is due within milliseconds, and only the poll finds the retry, so the poll interval is
        # short.
        clock = ShiftedClock()
        worker = Worker(
            tools,
            slots=values["worker_slots"],
            timings=WorkerTimings(poll_s=0.03),
            pool=pool,
            clock=clock,
        )
        worker.start()
        open_parts.callback(worker.stop, drain_s=TIMEOUT_S)
        yield WorkerHarness(tools, store, worker, bucket, endpoint, authority=authority, clock=clock)
