"""Measure whether receivers that never answer (black holes) delay webhooks to other destinations.

Events are created at a fixed rate (an open-loop load) for many destinations.
"""

import itertools
import socket
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from euterpe.bench.dispatch import delivering
from euterpe.bench.figures import Figure
from euterpe.bench.programs import Installation
from euterpe.bench.queue import LoadPlan
from euterpe.bench.receiver import BenchReceiver, receiving
from euterpe.store.engine.ids import new_id
from euterpe.store.store import Store

_DESTINATIONS = 50
_HOLES = _DESTINATIONS // 10
_EVENTS_PER_SECOND = 200
_TICK_S = 0.02
_LEASE_MS = 3_600_000
_ALL = 1_000_000

_ANSWERING = tuple(f"127.0.1.{number}" for number in range(1, _DESTINATIONS - _HOLES + 1))
_SILENT = tuple(f"127.0.2.{number}" for number in range(1, _HOLES + 1))


def measure_black_holes(installation: Installation, *, seconds: float) -> Figure:
    """Return the p99 of the delivery time to destinations that answer, while other destinations never answer.

    `bare` is the p99 for the same destinations when there are no black holes."""
    with receiving((*_ANSWERING, *_SILENT)) as receiver:
        answering = dict.fromkeys(_SILENT, receiver.port)
        without = _p99_ms(installation, receiver, seconds, answering, ExitStack())
        with ExitStack() as holes:
            silent = {host: holes.enter_context(_black_hole(host)) for host in _SILENT}
            beside = _p99_ms(installation, receiver, seconds, silent, holes)
    return Figure("p99 of a delivery while other receivers do not answer", "ms", beside, without, at_most=1.5)


@contextmanager
def _black_hole(host: str) -> Iterator[int]:
    """Yield the port of a socket: the kernel accepts its connections, but no process reads from them."""
    with socket.create_server((host, 0)) as listening:
        yield int(listening.getsockname()[1])


def _p99_ms(
    installation: Installation,
    receiver: BenchReceiver,
    seconds: float,
    others: Mapping[str, int],
    holes: ExitStack,
) -> float:
    """Return the p99 of the time from event to delivery, for the destinations that always answer."""
    ports = {**dict.fromkeys(_ANSWERING, receiver.port), **others}
    urls = [f"http://{host}:{port}/hook" for host, port in ports.items()]
    watched = urls[: len(_ANSWERING)]
    with installation.requester() as requester, installation.open() as store:
        source = _EventSource(store, LoadPlan(installation.settings, requester.requester_id, 0, 0, 1))
        with delivering(installation, [f"{host}:{port}" for host, port in ports.items()]) as check:
            receiver.expect(len(watched))
            source.emit_at_once(watched)  # wait for these deliveries, so that the dispatcher has started
            receiver.await_all(check)
            sent = list(itertools.islice(itertools.cycle(urls), int(seconds * _EVENTS_PER_SECOND)))
            receiver.expect(sum(url.endswith(f":{receiver.port}/hook") for url in sent))
            jobs = source.emit(sent)
            receiver.await_all(check)
            holes.close()  # otherwise the dispatcher's stop would wait for its sends to these ports
        waits = source.waits_ms([job_id for job_id, url in zip(jobs, sent, strict=True) if url in watched])
    return float(waits[len(waits) * 99 // 100])


class _EventSource:
    """A source of events at a fixed rate. To create an event, claim a job: each claim inserts one event."""

    def __init__(self, store: Store, plan: LoadPlan) -> None:
        self._store, self._plan = store, plan

    def emit_at_once(self, urls: Sequence[str]) -> None:
        self._enqueue(urls)
        self._claim(len(urls))

    def emit(self, urls: Sequence[str]) -> Sequence[str]:
        """Create one event per URL, in order, without waiting for deliveries. Return the job ids."""
        jobs = self._enqueue(urls)
        began, claimed = time.monotonic(), 0
        while claimed < len(urls):
            due = min(len(urls), int((time.monotonic() - began) * _EVENTS_PER_SECOND)) - claimed
            if due:
                claimed += self._claim(due)
            time.sleep(_TICK_S)
        return jobs

    def waits_ms(self, job_ids: Collection[str]) -> Sequence[int]:
        """Return the milliseconds from event to delivery for these jobs, in ascending order."""
        events = self._store.jobs.deliveries(requester_id=self._plan.requester_id, limit=_ALL)
        wanted = frozenset(job_ids)
        own = (event for event in events if event.job_id in wanted)
        return sorted((event.delivered_at or 0) - event.created_at for event in own)

    def _enqueue(self, urls: Sequence[str]) -> Sequence[str]:
        plans = {url: replace(self._plan, webhook_url=url) for url in urls}
        models = {url: self._store.new_job(plan.spec(), plan.requester_id) for url, plan in plans.items()}
        jobs = [replace(models[url], job_id=new_id()) for url in urls]
        self._store.enqueue.many(jobs)
        return [job.job_id for job in jobs]

    def _claim(self, count: int) -> int:
        return len(self._store.inbox.claim("bench", count, queues=(self._plan.queue,), lease_ms=_LEASE_MS))
