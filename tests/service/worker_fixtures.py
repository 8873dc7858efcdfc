"""Fixtures of the tests of faults: one workshop for all of them. A plugin, for those tests alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.net.servers import Server
from tests.s3 import S3Server
from tests.service.worker_harness import S3Proxy, WorkerHarness, working
from tests.storage.fake_stores import http_handler


@pytest.fixture(scope="session")
def open_proxy(s3: S3Server) -> S3Proxy:
    return S3Proxy(s3)


@pytest.fixture(scope="session")
def proxy_server(open_proxy: S3Proxy) -> Iterator[Server]:
    with Server(http_handler(open_proxy)) as server:
        yield server


@pytest.fixture(scope="session")
def bucket(s3: S3Server, clip: Path) -> Path:
    bucket = s3.bucket("workshop")
    (bucket / "clip.mp4").write_bytes(clip.read_bytes())
    return bucket


@pytest.fixture(scope="session")
def open_harness(
    tmp_path_factory: pytest.TempPathFactory, proxy_server: Server, bucket: Path
) -> Iterator[WorkerHarness]:
    with working(tmp_path_factory.mktemp("workshop"), proxy_server, bucket) as harness:
        yield harness


@pytest.fixture
def proxy(open_proxy: S3Proxy) -> Iterator[S3Proxy]:
    """Honest again after each test."""
    open_proxy.reset()
    yield open_proxy
    open_proxy.reset()


@pytest.fixture
def harness(open_harness: WorkerHarness, proxy: S3Proxy) -> WorkerHarness:
    assert proxy.answer == proxy.honest
    return open_harness
