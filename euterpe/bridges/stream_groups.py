"""Find consumer groups of a stream that nobody serves any more."""

from redis.asyncio import Redis

from euterpe.bridges.adapter import BridgeError
from euterpe.bridges.stream_jobs import StreamQueue

# A worker that reads one job at a time does not read while it works on this job.
ABANDONED_S = 600.0


async def require_no_abandoned_group(
    client: Redis, queue: StreamQueue, *, abandoned_s: float = ABANDONED_S
) -> None:
    """Raise `BridgeError` if another group has messages, and none of its consumers was seen lately.

    The messages of such a group stay in the stream for ever. If it is the group of the gateway's backlog, the
    gateway refuses all jobs once 200 messages wait.
    """
    if not await client.exists(queue.stream):
        return
    stream = await client.xinfo_stream(queue.stream)
    for group in await client.xinfo_groups(queue.stream):
        name = group["name"]
        waits = stream["length"] and group["last-delivered-id"] != stream["last-generated-id"]
        if name == queue.group or not (waits or group["pending"]):
            continue
        consumers = await client.xinfo_consumers(queue.stream, name)
        if not any(consumer["idle"] < abandoned_s * 1000 for consumer in consumers):
            raise BridgeError(
                f"nobody takes the messages of the group {name} of {queue.stream}, so the stream grows, and "
                f"the gateway may refuse jobs: set group = {name!r}, or remove the group by "
                f"XGROUP DESTROY {queue.stream} {name}"
            )
