"""A gateway on a real port, its HTTP clients, and readers of its event streams."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.requests import Request

from euterpe.api.server import ApiServer
from euterpe.domain.scopes import Scope
from euterpe.gateway.app import create_app
from euterpe.gateway.problems import GatewayRefusal
from euterpe.gateway.service import Authenticate, GatewayLimits
from tests.bridges.stream_driver import Producer
from tests.redis_server import RedisServer

JOB = {"task": "tool", "payload": {"tool": "transcode", "source": "s3://in/ä.mp4"}}


@dataclass(frozen=True)
class Frame:
    event: str
    json: Any
    id: str | None = None


class GatewayClient:
    """A client of a gateway. Its `redis` reads the jobs in Redis directly."""

    def __init__(self, server: RedisServer, url: str) -> None:
        self.server, self.url, self.redis = server, url, Producer(server)
        self.http = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def post(self, document: Any = None, **headers: str) -> httpx.Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post("/v1/jobs", json=JOB if document is None else document, headers=names)

    def create(self, **fields: Any) -> str:
        answer = self.post({**JOB, **fields})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["job_id"])

    def get(self, job_id: str) -> Any:
        answer = self.http.get(f"/v1/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def cancel(self, job_id: str, body: Any = None) -> httpx.Response:
        return self.http.post(f"/v1/jobs/{job_id}/cancel", json=body)

    @contextmanager
    def events(self, job_id: str, after: str | None = None) -> Iterator[Iterator[Frame]]:
        headers = {} if after is None else {"last-event-id": after}
        with self.http.stream("GET", f"/v1/jobs/{job_id}/events", headers=headers) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            yield frames(answer.iter_lines())


class RequesterKeys:
    """An authentication where the key of a requester is the requester's id. Tests add keys to `revoked`."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()
        self.is_down = False

    async def __call__(self, request: Request, scope: Scope) -> str:
        del scope
        if self.is_down:
            raise GatewayRefusal(503, "store_unavailable", "the database does not answer")
        key = request.headers["x-api-key"]
        if key in self.revoked:
            raise GatewayRefusal(401, "unauthorized", "the key is revoked")
        return key

    def stop(self) -> None: ...


@contextmanager
def serving(
    server: RedisServer, limits: GatewayLimits | None = None, authenticate: Authenticate | None = None
) -> Iterator[GatewayClient]:
    app = create_app(server.url, limits=limits, authenticate=authenticate)
    served = ApiServer(app, "127.0.0.1", 0)
    served.start()
    client = GatewayClient(server, served.url)
    try:
        yield client
    finally:
        client.http.close()
        served.stop()


def frames(lines: Iterator[str]) -> Iterator[Frame]:
    """Yield the frames of a stream. A comment becomes a frame with the event `comment`."""
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            yield Frame("comment", line[1:].strip())
        elif line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield _frame(fields)
            fields = {}


async def async_frames(lines: AsyncIterator[str]) -> AsyncIterator[Frame]:
    fields: dict[str, str] = {}
    async for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields and not line:
            yield _frame(fields)
            fields = {}


def _frame(fields: Mapping[str, str]) -> Frame:
    return Frame(fields["event"], json.loads(fields["data"]), fields.get("id"))


def detail(answer: httpx.Response, status: int, code: str) -> Any:
    assert answer.status_code == status, answer.text
    found = answer.json()["detail"]
    assert found.keys() == {"code", "message", "details"}
    assert found["code"] == code
    return found["details"]
