"""Fixtures of the fault tests, which load this plugin: one worker with an S3 proxy per session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.net.servers import Server
from tests.s3 import S3Server
from tests.service.worker_harness import S3Proxy, WorkerHarness, run_worker
from tests.storage.fake_stores import http_handler


@pytest.fixture(scope="session")
def session_proxy(s3: S3Server) -> S3Proxy:
    return S3Proxy(s3)


@pytest.fixture(scope="session")
def proxy_server(session_proxy: S3Proxy) -> Iterator[Server]:
    with Server(http_handler(session_proxy)) as server:
        yield server


@pytest.fixture(scope="session")
def bucket(s3: S3Server, clip: Path) -> Path:
    bucket = s3.bucket("faults")
    (bucket / "clip.mp4").write_bytes(clip.read_bytes())
    return bucket


@pytest.fixture(scope="session")
def session_harness(
    tmp_path_factory: pytest.TempPathFactory, proxy_server: Server, bucket: Path
) -> Iterator[WorkerHarness]:
    with run_worker(tmp_path_factory.mktemp("faults"), proxy_server, bucket) as harness:
        yield harness


@pytest.fixture
def proxy(session_proxy: S3Proxy) -> Iterator[S3Proxy]:
    """Yield the proxy, which is reset before and after each test, so that it forwards all calls."""
    session_proxy.reset()
    yield session_proxy
    session_proxy.reset()


@pytest.fixture
def harness(session_harness: WorkerHarness, proxy: S3Proxy) -> WorkerHarness:
    assert proxy.answer == proxy.forward
    return session_harness
