"""What the dispatcher is compared with: a loop around httpx that sends, and knows nothing of what it sent."""

import asyncio
import itertools
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import httpx

_HEADERS = {"content-type": "application/json"}


Send = Callable[[str, Sequence[bytes], int, int], None]


def elsewhere(send: Send, url: str, bodies: Sequence[bytes], count: int, concurrency: int) -> None:
    """From a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as sender:
        sender.submit(send, url, bodies, count, concurrency).result()


def with_threads(url: str, bodies: Sequence[bytes], count: int, concurrency: int) -> None:
    left = _bodies(bodies, count)
    with httpx.Client(trust_env=False) as client, ThreadPoolExecutor(concurrency) as threads:

        def work() -> None:
            for body in left:
                client.post(url, content=body, headers=_HEADERS).raise_for_status()

        for done in [threads.submit(work) for _ in range(concurrency)]:
            done.result()


def with_tasks(url: str, bodies: Sequence[bytes], count: int, concurrency: int) -> None:
    left = _bodies(bodies, count)

    async def work(client: httpx.AsyncClient) -> None:
        for body in left:
            (await client.post(url, content=body, headers=_HEADERS)).raise_for_status()

    async def everybody() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            await asyncio.gather(*(work(client) for _ in range(concurrency)))

    asyncio.run(everybody())


def _bodies(bodies: Sequence[bytes], count: int) -> Iterator[bytes]:
    """To be shared: `islice` and `cycle` are C, so threads take turns at them."""
    return itertools.islice(itertools.cycle(bodies), count)
