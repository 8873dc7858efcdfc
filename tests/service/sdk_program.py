"""A program of a requester that uses only the SDK.

The program submits jobs, watches them and verifies webhooks.

`test_sdk_alone.py` runs this program in an environment with httpx and no other package. The program prints
the address of its receiver, reads one JSON document (url, api_key, secret, request), and prints its results.
"""

import asyncio
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from queue import Queue
from threading import Thread
from typing import Any

from euterpe.client import (
    AsyncClient,
    Client,
    Event,
    MemoryDedupe,
    MemoryNonces,
    Progress,
    SignatureError,
    verify,
)

ABSENT = (
    *(
        "av",
        "cryptography",
        "imageio_ffmpeg",
        "obstore",
        "prometheus_client",
        "pydantic",
        "pydantic_settings",
    ),
    *("rich", "sqlalchemy", "starlette", "structlog", "typer", "uvicorn", "uvloop"),
)


def serve_webhooks() -> tuple[ThreadingHTTPServer, "Queue[tuple[dict[str, str], bytes]]"]:
    calls: Queue[tuple[dict[str, str], bytes]] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            calls.put((dict(self.headers), self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.05,)).start()
    return server, calls


def submit_and_watch(given: dict[str, Any]) -> list[str]:
    with Client(given["url"], given["api_key"]) as client:
        job = client.submit(given["request"])
        seen = [update for update in client.watch(job.job_id) if not isinstance(update, Progress)]
        client.wait(job.job_id, timeout=60).raise_for_failure()
    return [event.status for event in seen]


async def submit_and_watch_async(given: dict[str, Any]) -> list[str]:
    async with AsyncClient(given["url"], given["api_key"]) as client:
        job = await client.submit(given["request"])
        seen = [update async for update in client.watch(job.job_id) if not isinstance(update, Progress)]
        (await client.wait(job.job_id, timeout=60)).raise_for_failure()
    return [event.status for event in seen]


def verified(calls: "Queue[tuple[dict[str, str], bytes]]", secret: str, jobs: int) -> list[str]:
    """Verify webhooks until `jobs` jobs have ended. Return the sorted statuses."""
    nonces, dedupe, events = MemoryNonces(), MemoryDedupe(), list[Event]()
    while sum(event.type == "job.succeeded" for event in events) < jobs:
        headers, body = calls.get(timeout=60)
        refuse_a_changed_body(headers, body, secret)
        event = verify(headers, body, [secret], replay_cache=nonces)
        if dedupe.first_time(event.event_id):
            events.append(event)
    return sorted(event.status for event in events)


def refuse_a_changed_body(headers: dict[str, str], body: bytes, secret: str) -> None:
    try:
        verify(headers, body + b" ", [secret], replay_cache=None)
    except SignatureError:
        return
    raise AssertionError("a changed body was accepted")


def sql_dedupe_problem() -> str:
    try:
        import euterpe.client.sql_dedupe  # noqa: PLC0415  this import must fail
    except ModuleNotFoundError as error:
        return str(error)
    return f"{euterpe.client.sql_dedupe} was imported"


def main() -> None:
    server, calls = serve_webhooks()
    print(f"127.0.0.1:{server.server_address[1]}", flush=True)  # noqa: T201
    given = json.loads(sys.stdin.readline())
    try:
        report = {
            "sync": submit_and_watch(given),
            "async": asyncio.run(submit_and_watch_async(given)),
            "webhooks": verified(calls, given["secret"], jobs=2),
            "present": [name for name in ABSENT if find_spec(name) is not None],
            "sql_dedupe": sql_dedupe_problem(),
        }
    finally:
        server.shutdown()
        server.server_close()
    print(json.dumps(report))  # noqa: T201


if __name__ == "__main__":
    main()
