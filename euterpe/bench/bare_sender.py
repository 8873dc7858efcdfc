"""The baseline for the dispatcher benchmark: loops around httpx that send bodies and record nothing."""

import asyncio
import itertools
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import httpx

_HEADERS = {"content-type": "application/json"}


Send = Callable[[str, Sequence[bytes], int, int], None]


def elsewhere(send: Send, url: str, bodies: Sequence[bytes], count: int, concurrency: int) -> None:
    """Run `send` in a separate process and wait for it."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as sender:
        sender.submit(send, url, bodies, count, concurrency).result()


def with_threads(url: str, bodies: Sequence[bytes], count: int, concurrency: int) -> None:
    """Send `count` bodies with a thread pool that shares one `httpx.Client`."""
    remaining = _bodies(bodies, count)
    with httpx.Client(trust_env=False) as client, ThreadPoolExecutor(concurrency) as threads:

        def work() -> None:
            for body in remaining:
                client.post(url, content=body, headers=_HEADERS).raise_for_status()

        for done in [threads.submit(work) for _ in range(concurrency)]:
            done.result()


def with_tasks(url: str, bodies: Sequence[bytes], count: int, concurrency: int) -> None:
    """Send `count` bodies with asyncio tasks that share one `httpx.AsyncClient`."""
    remaining = _bodies(bodies, count)

    async def work(client: httpx.AsyncClient) -> None:
        for body in remaining:
            (await client.post(url, content=body, headers=_HEADERS)).raise_for_status()

    async def run_workers() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            await asyncio.gather(*(work(client) for _ in range(concurrency)))

    asyncio.run(run_workers())


def _bodies(bodies: Sequence[bytes], count: int) -> Iterator[bytes]:
    """Return an iterator that threads may share: each `next` is a single C call under the GIL."""
    return itertools.islice(itertools.cycle(bodies), count)
