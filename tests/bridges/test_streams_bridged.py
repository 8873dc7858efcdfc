"""A job of the gateway becomes a row in SQL, and its end is reported to the gateway's clients."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.requests import Request

from euterpe.domain.retry import canceled
from euterpe.domain.scopes import Scope
from euterpe.domain.states import JobStatus
from euterpe.settings import Settings
from euterpe.store.store import Store
from euterpe.wiring.bridges import RunningBridges, load_bridges
from tests import engines
from tests.bridges.bridge_process import BridgedInstallation, installed
from tests.bridges.scripted_worker import NOT_MEDIA, claim, fail, succeed, wait_until
from tests.gateway.serving import GatewayClient, serving
from tests.redis_server import RedisServer

PAYLOAD = {"tool": "transcode", "source": "https://media.example/a.mov"}
MAPPING = """
[bridge.videos]
kind = "streams"
url_env = "VIDEOS_URL"
stream = "jobs:stream"
group = "workers"
requester = "newsroom"
slots = 4
lease_ms = 2000
[bridge.videos.jobs.tool]
when = {{tool = "transcode"}}
source = "{{data.source}}"
output = "file://{media}/out/{{id}}/"
profile = "h264-480p"
"""


@dataclass
class Scene:
    gateway: GatewayClient
    store: Store
    start: Callable[[], RunningBridges]
    bridge: RunningBridges

    def restart_after(self, between: Callable[[], object]) -> None:
        """Stop the bridge, call `between`, and start the bridge again."""
        self.bridge.stop()
        between()
        self.bridge = self.start()


class AuthenticateByHeader:
    """An authentication that takes the id of the requester from a header."""

    async def __call__(self, request: Request, scope: Scope) -> str:
        del scope
        return request.headers.get("x-requester", "")

    def stop(self) -> None: ...


def settings_of(installation: BridgedInstallation) -> Settings:
    (installation.folder / "bridges.toml").write_text(MAPPING.format(media=installation.media))
    environ = installation.environ
    return Settings(
        database_url=environ["EUTERPE_DATABASE_URL"],
        kek_file=environ["EUTERPE_KEK_FILE"],
        storage_roots=(environ["EUTERPE_STORAGE_ROOTS"],),
        bridges=Path(environ["EUTERPE_BRIDGES"]),
    )


@pytest.fixture
def scene(servers: Callable[[str], engines.Engine], redis_server: RedisServer) -> Iterator[Scene]:
    with (
        servers("sqlite").fresh() as database,
        installed(database, redis_server.url) as installation,
        installation.store() as store,
        serving(redis_server, authenticate=AuthenticateByHeader()) as gateway,
    ):
        settings = settings_of(installation)

        def started() -> RunningBridges:
            bridge = RunningBridges(settings, load_bridges(settings, environ=installation.environ))
            bridge.start()
            return bridge

        scene = Scene(gateway, store, started, started())
        yield scene
        scene.bridge.stop()


def test_a_job_is_done_with_its_outputs(scene: Scene) -> None:
    job_id = scene.gateway.create(payload=PAYLOAD)
    with scene.gateway.events(job_id) as events:
        succeed(scene.store, claim(scene.store))
        seen = list(events)
    assert [frame.event for frame in seen if frame.event in ("queued", "running", "done")] == [
        "queued",
        "running",
        "done",
    ]
    job = scene.gateway.get(job_id)
    (row,) = scene.store.jobs.page()
    assert (job["status"], job["result"]["job_id"]) == ("done", row.job_id)
    assert row.source_ref == f"stream:jobs%3Astream:{job_id}"


def test_a_failure_ends_the_job_with_its_code(scene: Scene) -> None:
    job_id = scene.gateway.create(payload=PAYLOAD)
    with scene.gateway.events(job_id) as events:
        fail(scene.store, claim(scene.store), NOT_MEDIA)
        last = list(events)[-1]
    assert (last.event, last.json["data"]["code"]) == ("error", "source_not_media")
    assert scene.gateway.get(job_id)["status"] == "error"


def test_a_job_without_a_mapping_is_refused_once(scene: Scene) -> None:
    job_id = scene.gateway.create(task="chat", payload={"text": "hello"})
    with scene.gateway.events(job_id) as events:
        last = list(events)[-1]
    assert last.event == "error"
    assert scene.store.jobs.page() == []


def test_the_job_of_another_requester_is_refused(scene: Scene) -> None:
    """In an earlier version, every requester of a gateway used the quota of the bridge's requester."""
    other = scene.store.requesters.create("rival")
    document = {"task": "tool", "payload": PAYLOAD}
    job_id = scene.gateway.post(document, x_requester=other.requester_id).json()["job_id"]
    wait_until(lambda: scene.gateway.redis.fields(job_id)["status"] == "error")
    assert json.loads(scene.gateway.redis.fields(job_id)["error"])["code"] == "wrong_requester"
    assert scene.store.jobs.page() == []


def test_a_cancel_while_no_bridge_runs_cancels_the_row(scene: Scene) -> None:
    """In an earlier version, the row ran to its end, and its outputs were published."""
    job_id = scene.gateway.create(payload=PAYLOAD)
    held = claim(scene.store)
    scene.restart_after(lambda: scene.gateway.cancel(job_id))
    wait_until(lambda: scene.store.jobs.get(held.job_id).cancel_requested_at is not None)
    fail(scene.store, held, canceled("uploading"))
    wait_until(lambda: scene.gateway.redis.pending() == 0)
    assert scene.store.jobs.get(held.job_id).status == JobStatus.FAILED
    assert scene.gateway.get(job_id)["status"] == "canceled"


def test_a_job_that_is_canceled_before_a_bridge_takes_it_makes_no_row(scene: Scene) -> None:
    job_id = ""

    def between() -> None:
        nonlocal job_id
        job_id = scene.gateway.create(payload=PAYLOAD)
        scene.gateway.cancel(job_id)

    scene.restart_after(between)
    after = scene.gateway.create(payload=PAYLOAD)
    succeed(scene.store, claim(scene.store))
    with scene.gateway.events(after) as events:
        assert list(events)[-1].event == "done"
    wait_until(lambda: scene.gateway.redis.pending() == 0)
    assert len(scene.store.jobs.page()) == 1
    assert scene.gateway.get(job_id)["status"] == "canceled"
