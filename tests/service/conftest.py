"""Fixtures: an S3 server and clips for the session; for each test an installation on each engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.media.sources.cache import sources
from tests.s3 import S3Server, serving_s3
from tests.service.clips import make_clip
from tests.service.installation import Installation
from tests.service.receiver import Receiver, receiving

__all__ = ["sources"]


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serving_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a clip of two seconds with picture and sound."""
    return make_clip(tmp_path_factory.mktemp("clips") / "clip.mp4", seconds=2, size="320x180")


@pytest.fixture(scope="session")
def long_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a clip that takes about six seconds to encode."""
    return make_clip(tmp_path_factory.mktemp("clips") / "long.mp4", seconds=12, size="1280x720")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


@pytest.fixture
def media(s3: S3Server, clip: Path, long_clip: Path) -> Path:
    """Return the bucket that the jobs read and write, with the clips in it."""
    bucket = s3.bucket("media")
    for path in (clip, long_clip):
        (bucket / path.name).write_bytes(path.read_bytes())
    return bucket


@pytest.fixture
def installation(
    tmp_path: Path, url: str, s3: S3Server, media: Path, receiver: Receiver
) -> Iterator[Installation]:
    assert media.exists()
    opened = Installation(tmp_path, url, s3, receiver)
    yield opened
    opened.close()
