"""Run a bridge on the foreign queue in memory, over a real store."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from euterpe.bridges.attach import Attacher, JobRules
from euterpe.bridges.bridge import Bridge, BridgeTimings
from euterpe.bridges.counts import BridgeCounts
from euterpe.bridges.mapping import JobMapping
from euterpe.bridges.outage import ForeignCalls
from euterpe.bridges.requester_account import QueueLimits, RequesterAccount, StoreCalls
from euterpe.bridges.row_watcher import RowWatcher
from euterpe.bridges.templates import Template
from euterpe.domain.profiles import built_in_profiles
from euterpe.domain.rows import JobRow
from euterpe.domain.storage_profiles import StorageProfiles
from euterpe.storage.policy import StoragePolicy
from euterpe.store.engine.wakeup import Topic
from euterpe.store.store import Store
from euterpe.wiring.bridges import cancel_job
from tests.bridges.memory_queue import MemoryAdapter, MemoryJob, MemoryQueue

Result = TypeVar("Result")
DATA = {"source": "https://media.example/a.mov"}
TIMINGS = BridgeTimings(take_wait_s=0.05, progress_every_s=0.0, no_room_s=0.02, database_s=0.02, drain_s=5.0)
MAPPING = JobMapping(
    name="transcode",
    source=Template.parse("{data.source}"),
    output=Template.parse("file:///media/out/{id}/"),
    profile=Template.parse("{data.profile|h264-720p}"),
    profiles=frozenset({"h264-720p"}),
)


@dataclass
class Setup:
    """The parts and options of a bridge. A test sets the parts and options that it examines."""

    store: Store
    queue: MemoryQueue = field(default_factory=MemoryQueue)
    slots: int = 8
    limits: QueueLimits = field(default_factory=QueueLimits)
    timings: BridgeTimings = TIMINGS
    mapping: JobMapping = MAPPING
    storage_profiles: StorageProfiles = field(default_factory=dict)
    counts: BridgeCounts = field(default_factory=BridgeCounts)

    def count(self, name: str, **labels: str) -> float:
        value = self.counts.registry.get_sample_value(f"euterpe_bridge_{name}", {"bridge": "b", **labels})
        return value or 0.0

    def with_mapping(self, **fields: Any) -> "Setup":
        return replace(self, mapping=replace(self.mapping, **fields))

    def rows(self) -> list[JobRow]:
        return [self.store.jobs.get(row.job_id) for row in self.store.jobs.page()]

    def row_of(self, job: MemoryJob) -> JobRow:
        row = self.store.jobs.of_source(f"bullmq:memory:{job.job_id}:{job.added}")
        assert row is not None
        return row


async def in_thread(call: Callable[..., Result], *args: Any) -> Result:
    return await asyncio.to_thread(call, *args)


@dataclass
class RunningBridge:
    adapter: MemoryAdapter
    stopping: asyncio.Event
    task: "asyncio.Task[None]"

    async def stop(self) -> None:
        self.stopping.set()
        await self.task

    async def kill(self) -> None:
        """End the bridge without releasing its jobs, as SIGKILL would."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def running(
    setup: Setup, adapter: MemoryAdapter | None = None, foreign_calls: ForeignCalls | None = None
) -> AsyncIterator[RunningBridge]:
    store, calls = setup.store, StoreCalls()
    adapter = adapter or MemoryAdapter(setup.queue)
    account = RequesterAccount(store, calls, "newsroom", setup.limits, valid_s=0.0)
    await account.find()
    policy = StoragePolicy(roots=(Path("/media"),), endpoints=())
    rules = JobRules({"transcode": setup.mapping}, built_in_profiles(), setup.storage_profiles, policy)
    listener = store.database.listen(Topic.OUTBOX)
    counts = setup.counts.of("b")
    bridge = Bridge(
        "b",
        adapter=adapter,
        attacher=Attacher(store, calls, rules, account),
        account=account,
        watcher=RowWatcher(store.jobs, calls, listener, every_s=0.05),
        counts=counts,
        cancel=partial(cancel_job, store, calls),
        slots=setup.slots,
        timings=setup.timings,
        calls=foreign_calls or ForeignCalls("b", counts, base_s=0.01, cap_s=0.05),
    )
    stopping = asyncio.Event()
    run = RunningBridge(adapter, stopping, asyncio.ensure_future(bridge.run(stopping)))
    try:
        yield run
    finally:
        stopping.set()
        await asyncio.gather(run.task, return_exceptions=run.task.cancelled())
        await asyncio.to_thread(calls.stop)
        listener.close()
