"""The parts that the endpoints of remote workers share: claim desk, reports, secrets, and their threads."""

from dataclasses import dataclass
from functools import partial

from euterpe.api.problems import ProblemCode, Refused
from euterpe.api.thread_pool import StoreThreadPool
from euterpe.control.claim_desk import ClaimDesk
from euterpe.control.lease_tokens import LeaseKey, LeaseTokens
from euterpe.control.leased_secrets import LeasedSecrets
from euterpe.control.refresher import Refresher
from euterpe.control.reported_attempts import ReportedAttempts
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.store.engine.wakeup import Topic
from euterpe.store.store import Store

# A call to a requester's refresh_url occupies a thread for up to 10 s. If each requester had half of the
# threads, as in the other pools, two slow requesters would occupy all threads.
_REFRESH_THREADS, _REFRESH_THREADS_PER_REQUESTER, _MOST_REFRESHES = 32, 4, 1_000


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Settings of the endpoints for remote workers."""

    lease_ms: int = 60_000
    heartbeat_ms: int = 15_000
    progress_ms: int = 5_000
    gives_inline: bool = False  # give unsealed secrets to workers without a public key, over TLS or loopback
    max_refreshes: int = 3
    # At most this many workers wait in long polls of this process. There is no limit per API key, because
    # many workers may share a key.
    most_waiting: int = 10_000


class RemoteWorkers:
    """The control plane of remote workers in one API process. `start` runs on the server's event loop."""

    def __init__(self, store: Store, egress: EgressPolicy, settings: WorkerSettings) -> None:
        self.settings, self._store = settings, store
        self.tokens = LeaseTokens(partial(_lease_keys, store))
        self.reports = ReportedAttempts(store, self.tokens, lease_ms=settings.lease_ms)
        self._egress = Egress(egress)
        refresher = Refresher(store, self._egress, max_refreshes=settings.max_refreshes)
        self.secrets = LeasedSecrets(
            store, refresher, lease_ms=settings.lease_ms, max_refreshes=settings.max_refreshes
        )
        wait_s = store.database.write_wait_s
        self.refresh_pool = StoreThreadPool(
            _REFRESH_THREADS,
            per_requester=_REFRESH_THREADS_PER_REQUESTER,
            write_wait_s=wait_s,
            most=_MOST_REFRESHES,
        )
        self._desk: ClaimDesk | None = None
        self._is_stopping = False

    @property
    def desk(self) -> ClaimDesk:
        if self._desk is None or self._is_stopping:
            raise Refused(ProblemCode.OVERLOADED, "the service is stopping; try again", retry_after_s=1)
        return self._desk

    def start(self) -> None:
        self._desk = ClaimDesk(
            self._store.inbox.claim_for,
            self._store.database.listen(Topic.INBOX),
            most_jobs=self._store.database.engines.read_limit,
            most_waiting=self.settings.most_waiting,
        )
        self._desk.start()
        self.reports.start()

    def end_waits(self) -> None:
        """Answer all waiting workers. Any thread may call this."""
        self._is_stopping = True
        if self._desk is not None:
            self._desk.begin_stop()

    def stop(self) -> None:
        self.end_waits()
        if self._desk is not None:
            self._desk.stop()
        self.refresh_pool.stop()
        self.reports.stop()
        self._egress.close()


def _lease_keys(store: Store) -> list[LeaseKey]:
    return [LeaseKey(key.key_id, key.key) for key in store.service_secrets.lease_keys()]
