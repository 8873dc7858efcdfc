"""Helpers of the tests of uploads: a fake store, a job's access to it, and files to publish."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from euterpe.domain.credentials import StorageCredentials
from euterpe.domain.leased_job import LeasedJob
from euterpe.domain.spec import JobSpec, parse_spec
from euterpe.media.encoding.verify import MadeFile
from euterpe.net.egress import Egress
from euterpe.net.limits import Clock
from euterpe.net.pace import MinimumPace
from euterpe.net.policy import EgressPolicy
from euterpe.storage.policy import StoragePolicy
from euterpe.storage.publication import Owner
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import TransferRetry
from euterpe.worker.attempt_control import AttemptControl
from euterpe.worker.credentials import CredentialAccess
from euterpe.worker.early_uploads import EarlyUploads
from euterpe.worker.uploader import Uploader
from tests.net.servers import Server
from tests.storage.conditional_store import ConditionalStore
from tests.storage.conftest import endpoint_of
from tests.storage.fake_stores import Answer, Call, Reply, http_handler
from tests.storage.keys import S3, credentials
from tests.store.jobs import SPEC

TIMEOUT_S = 30.0


class FixedAccess:
    """Access to credentials that change only when `renew` is called."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.renew("AKIAFIRST")

    def renew(self, access_key_id: str) -> None:
        self.spec: JobSpec = parse_spec({**SPEC, "output": {"url": "s3://out/job/"}})
        self._credentials = credentials({**S3, "access_key_id": access_key_id}, self._server)

    def on(self, _: str, work: Callable[[JobSpec, StorageCredentials], Any]) -> Any:
        return work(self.spec, self._credentials)

    def now(self, _: str) -> tuple[JobSpec, StorageCredentials]:
        return self.spec, self._credentials


@dataclass
class UploadBench:
    """The uploads of one attempt to `store`. `fence_checks` counts the checks of the lease."""

    store: ConditionalStore
    server: Server
    storage: Storage
    control: AttemptControl
    folder: Path
    fence_checks: int = 0
    on_fence: Callable[[], None] = lambda: None
    sizes: list[int] = field(default_factory=list)
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __post_init__(self) -> None:
        self.access = FixedAccess(self.server)

    def await_upload(self) -> None:
        """Wait until the next upload in parts has begun."""
        assert self.begun.acquire(timeout=TIMEOUT_S), "no upload began"

    def early(self, end_wait_s: float = TIMEOUT_S) -> EarlyUploads:
        return EarlyUploads(
            *(self.storage, self._access, self.control, self._owner),
            on_sent=self.sizes.append,
            end_wait_s=end_wait_s,
        )

    def uploader(self, early: EarlyUploads) -> Uploader:
        return Uploader(
            *(self.storage, self._access, self.control, self._owner, self._check_fence),
            on_sent=self.sizes.append,
            early=early,
        )

    def file(self, name: str, content: bytes = b"", *, refers: bool = False) -> MadeFile:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content or name.encode() * 100)
        return MadeFile(name.partition("/")[0], name, path, "video/mp4", None, None, None, refers=refers)

    def published(self) -> list[str]:
        return [path.removeprefix("/out/job/") for path in self.store.published]

    @property
    def _access(self) -> CredentialAccess:
        return cast(CredentialAccess, self.access)

    @property
    def _owner(self) -> Owner:
        return Owner(self.control.job.job_id, self.control.job.claim_version)

    def _check_fence(self, *, refers: bool) -> None:  # noqa: ARG002  counts both kinds
        self.fence_checks += 1
        self.on_fence()


@contextmanager
def upload_bench(
    job: LeasedJob,
    folder: Path,
    *,
    store: ConditionalStore | None = None,
    answer: Answer | None = None,
    least_early_bytes: int = 1,
    part_bytes: int = 1 << 20,
    pace: MinimumPace | None = None,
    clock: Clock = time.monotonic,
) -> Iterator[UploadBench]:
    """Yield uploads to a fake store. `answer` can answer requests instead of the store."""
    store = store or ConditionalStore()
    behind, begun = answer or store, threading.Semaphore(0)

    def watched(call: Call) -> Reply:
        if call.query == "uploads=":
            begun.release()
        return behind(call)

    policy = EgressPolicy(["127.0.0.0/8"])
    with Server(http_handler(watched)) as server, Egress(policy, clock=clock) as egress:
        storage = Storage(
            StoragePolicy(endpoints=(endpoint_of(server),)),
            egress,
            pace=pace,
            part_bytes=part_bytes,
            least_early_bytes=least_early_bytes,
            retry=TransferRetry(first_pause_s=0.001),
        )
        control = AttemptControl(job, TIMEOUT_S)
        yield UploadBench(store, server, storage, control, folder, begun=begun)


def threads_named(prefix: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(prefix)]
