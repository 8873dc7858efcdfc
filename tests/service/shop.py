"""Fixtures of the tests of faults: one workshop for all of them. A plugin, for those tests alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.net.servers import Server
from tests.s3 import S3Server
from tests.service.workshop import Front, Workshop, working
from tests.storage.servers import talking


@pytest.fixture(scope="session")
def open_front(s3: S3Server) -> Front:
    return Front(s3)


@pytest.fixture(scope="session")
def front_server(open_front: Front) -> Iterator[Server]:
    with Server(talking(open_front)) as server:
        yield server


@pytest.fixture(scope="session")
def bucket(s3: S3Server, clip: Path) -> Path:
    bucket = s3.bucket("workshop")
    (bucket / "clip.mp4").write_bytes(clip.read_bytes())
    return bucket


@pytest.fixture(scope="session")
def open_shop(
    tmp_path_factory: pytest.TempPathFactory, front_server: Server, bucket: Path
) -> Iterator[Workshop]:
    with working(tmp_path_factory.mktemp("workshop"), front_server, bucket) as shop:
        yield shop


@pytest.fixture
def front(open_front: Front) -> Iterator[Front]:
    """Honest again after each test."""
    open_front.reset()
    yield open_front
    open_front.reset()


@pytest.fixture
def shop(open_shop: Workshop, front: Front) -> Workshop:
    assert front.answer == front.honest
    return open_shop
