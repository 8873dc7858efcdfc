"""Tests of storage: only allowed endpoints are called, and large objects use little memory."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from euterpe.domain.error_codes import RetryClass
from euterpe.storage.errors import StorageError
from euterpe.storage.storage import Storage
from tests.s3 import S3Server
from tests.storage.conftest import Serve, keys_to
from tests.storage.fake_stores import MemoryStore
from tests.storage.storage_calls import destination, source


def test_an_endpoint_that_the_operator_does_not_allow_is_never_called(
    serve: Serve, open_storage: Callable[..., Storage]
) -> None:
    allowed, other = serve(MemoryStore(**{"in/a.mov": b"media"})), serve(MemoryStore())
    storage = open_storage(allowed)
    assert source(storage, "s3://in/a.mov", keys_to(allowed)).stat().size == 5
    for call in (source, destination):
        with pytest.raises(StorageError) as refused:
            call(storage, "s3://in/a/" if call is destination else "s3://in/a.mov", keys_to(other))
        assert (refused.value.code, refused.value.retry_class) == (
            "endpoint_not_allowed",
            RetryClass.PERMANENT,
        )
    assert other.accepted == 0


def test_a_large_object_passes_through_little_memory(s3: S3Server, tmp_path: Path) -> None:
    """A separate process fetches and stores 128 MiB, and reports how much its memory grew."""
    bucket = s3.bucket(f"b-{uuid4().hex}")
    with (bucket / "a.mov").open("wb") as sparse:
        sparse.truncate(128 << 20)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.storage.transfer_process",
            json.dumps(s3.document()),
            bucket.name,
            tmp_path,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (bucket / "back/a.mov").stat().st_size == 128 << 20
    assert report["size"] == 128 << 20
    assert report["grown"] < 64 << 20
