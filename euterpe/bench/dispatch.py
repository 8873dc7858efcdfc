"""`euterpe bench dispatch`: deliveries per second of a backlog of events, compared with bare httpx loops."""

import asyncio
import itertools
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager

import httpx

from euterpe.bench.figures import BenchFailed, Figure
from euterpe.bench.programs import Installation
from euterpe.bench.queue import LoadPlan, enqueue_in_bulk, run_to_success
from euterpe.bench.receiver import BenchReceiver, receiving
from euterpe.domain.states import OutboxStatus
from euterpe.store.store import Store

# The baseline: loops around httpx that send bodies and record nothing.
_HEADERS = {"content-type": "application/json"}


Send = Callable[[str, Sequence[bytes], int, int], None]


def elsewhere(send: Send, url: str, bodies: Sequence[bytes], count: int, concurrency: int) -> None:
    """Run `send` in a separate process and wait for it."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as sender:
        sender.submit(send, url, bodies, count, concurrency).result()


def with_threads(url: str, bodies: Sequence[bytes], count: int, concurrency: int) -> None:
    """Send `count` bodies with a thread pool that shares one `httpx.Client`."""
    remaining = _repeated(bodies, count)
    with httpx.Client(trust_env=False) as client, ThreadPoolExecutor(concurrency) as threads:

        def work() -> None:
            for body in remaining:
                client.post(url, content=body, headers=_HEADERS).raise_for_status()

        for done in [threads.submit(work) for _ in range(concurrency)]:
            done.result()


def with_tasks(url: str, bodies: Sequence[bytes], count: int, concurrency: int) -> None:
    """Send `count` bodies with asyncio tasks that share one `httpx.AsyncClient`."""
    remaining = _repeated(bodies, count)

    async def work(client: httpx.AsyncClient) -> None:
        for body in remaining:
            (await client.post(url, content=body, headers=_HEADERS)).raise_for_status()

    async def run_workers() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            await asyncio.gather(*(work(client) for _ in range(concurrency)))

    asyncio.run(run_workers())


def _repeated(bodies: Sequence[bytes], count: int) -> Iterator[bytes]:
    """Return an iterator that threads can share, because each `next` is a single C call under the GIL."""
    return itertools.islice(itertools.cycle(bodies), count)


_FOREIGN = "events of the bench were not delivered: stop other dispatchers while you measure"


@contextmanager
def delivering(installation: Installation, addresses: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Run `euterpe dispatcher`, and allow it to send to these addresses (`host:port`).

    Yield a function that raises `BenchFailed` if the dispatcher has ended. Like any dispatcher, this
    dispatcher delivers every event in the outbox, including the events of real requesters.
    """
    allowed = ",".join((*installation.settings.egress_allow, *addresses))
    with installation.running("dispatcher", EUTERPE_EGRESS_ALLOW=allowed) as dispatcher:
        yield dispatcher.check_running


def require_delivered(store: Store, requester_id: str) -> None:
    """Raise `BenchFailed` if an event of this requester has not been delivered."""
    undelivered = [status for status in OutboxStatus if status is not OutboxStatus.DELIVERED]
    if store.jobs.deliveries(statuses=undelivered, requester_id=requester_id, limit=1):
        raise BenchFailed(_FOREIGN)


_EVENTS_PER_JOB = 5
_JOBS_AT_ONCE = 100


def measure_backlog(installation: Installation, *, events: int) -> Sequence[Figure]:
    """Return the events per second of the dispatcher, compared with two senders without a database."""
    concurrency = installation.settings.outbox_concurrency
    with receiving() as receiver, installation.requester() as requester, installation.open() as store:
        jobs = events // _EVENTS_PER_JOB
        plan = LoadPlan(
            installation.settings, requester.requester_id, jobs, _JOBS_AT_ONCE, 1, 1, receiver.url()
        )
        enqueue_in_bulk(store, plan)
        run_to_success(store, plan)
        bodies = _bodies(store, plan)
        bare, bare_async = (
            _measure_bare(receiver, send, bodies, events, concurrency) for send in (with_threads, with_tasks)
        )
        receiver.expect(events)
        with delivering(installation, [f"127.0.0.1:{receiver.port}"]) as check:
            ours = receiver.await_all(check)
        require_delivered(store, plan.requester_id)
    return [
        Figure("webhooks", "events/s", ours, bare, at_least=0.8),
        Figure("webhooks, compared with httpx' async client", "events/s", ours, bare_async),
    ]


def _bodies(store: Store, plan: LoadPlan) -> Sequence[bytes]:
    """Return the bodies of the events of up to 20 jobs. The bare loops send these bodies."""
    jobs = store.jobs.page(requester_id=plan.requester_id, limit=20)
    return [event.payload.encode() for job in jobs for event in store.jobs.events(job.job_id)]


def _measure_bare(
    receiver: BenchReceiver, send: Send, bodies: Sequence[bytes], events: int, concurrency: int
) -> float:
    receiver.expect(events)
    elsewhere(send, receiver.url(), bodies, events, concurrency)
    return receiver.await_all()
