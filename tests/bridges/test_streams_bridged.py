"""A job of the gateway becomes a row in SQL, and its end is reported to the gateway's clients."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from euterpe.settings import Settings
from euterpe.store.store import Store
from euterpe.wiring.bridges import RunningBridges, load_bridges
from tests import engines
from tests.bridges.bridge_process import BridgedInstallation, installed
from tests.bridges.scripted_worker import NOT_MEDIA, claim, fail, succeed
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
    bridge: RunningBridges


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
        serving(redis_server) as gateway,
    ):
        settings = settings_of(installation)
        bridge = RunningBridges(settings, load_bridges(settings, environ=installation.environ))
        bridge.start()
        yield Scene(gateway, store, bridge)
        bridge.stop()


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
