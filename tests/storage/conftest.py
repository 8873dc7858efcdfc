"""Fixtures for the tests of storage: S3 and fake servers, storage with a policy, and files."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from euterpe.domain.credentials import S3Credentials
from euterpe.net.egress import Egress
from euterpe.net.limits import Clock
from euterpe.net.pace import MinimumPace
from euterpe.net.policy import EgressPolicy
from euterpe.storage.buckets import LEAST_EARLY
from euterpe.storage.clients import IDLE_S
from euterpe.storage.policy import StoragePolicy
from euterpe.storage.range_readers import DEFAULT_PARALLEL, ParallelFetch
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import TransferRetry
from tests.net.servers import Authority, Server
from tests.s3 import S3Server, serving_s3
from tests.storage.fake_stores import Answer, http_handler

Serve = Callable[[Answer], Server]
PART = 500_000
QUICK_RETRY = TransferRetry(first_pause_s=0.001)
# Ranges are fetched for every source, even if it is small or its store is fast.
EAGER = ParallelFetch(from_bytes=0, from_s=0.0, from_latencies=0.0, settle_s=0.0, idle_s=20.0, patience_s=0.2)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serving_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Yield a function that starts a store. Its argument `answer` creates the responses of the store."""
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(Server(http_handler(answer)))


@pytest.fixture
def serve_tls(authority: Authority) -> Iterator[Serve]:
    tls = authority.server_context(["localhost"])
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(Server(http_handler(answer), tls))


@pytest.fixture
def open_storage(authority: Authority) -> Iterator[Callable[..., Storage]]:
    """Yield a function that opens storage. The policy and the egress allow the given servers and roots."""
    with ExitStack() as stack:

        def open_it(
            *servers: Server | S3Server,
            roots: tuple[Path, ...] = (),
            pace: MinimumPace | None = None,
            idle_s: float = IDLE_S,
            parallel: ParallelFetch = DEFAULT_PARALLEL,
            least_early_bytes: int = LEAST_EARLY,
            clock: Clock = time.monotonic,
        ) -> Storage:
            endpoints = tuple(endpoint_of(server) for server in servers)
            pairs = [f"localhost:{server.port}" for server in servers if isinstance(server, Server)]
            egress = Egress(EgressPolicy(pairs), ssl_context=authority.client_context(), clock=clock)
            stack.enter_context(egress)
            policy = StoragePolicy(roots=roots, endpoints=endpoints)
            return Storage(
                policy,
                egress,
                pace=pace,
                idle_s=idle_s,
                part_bytes=PART,
                retry=QUICK_RETRY,
                parallel=parallel,
                least_early_bytes=least_early_bytes,
            )

        yield open_it


@pytest.fixture
def bucket(s3: S3Server) -> Path:
    return s3.bucket(f"b-{uuid4().hex}")


@pytest.fixture
def storage(open_storage: Callable[..., Storage], s3: S3Server) -> Storage:
    return open_storage(s3)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Return a file that is uploaded in three parts of at most `PART` bytes."""
    large = tmp_path / "large.mp4"
    large.write_bytes(os.urandom(1_234_567))
    return large


@pytest.fixture
def small(tmp_path: Path) -> Path:
    small = tmp_path / "small.mp4"
    small.write_bytes(os.urandom(100_000))
    return small


def endpoint_of(server: Server | S3Server) -> str:
    return server.endpoint if isinstance(server, S3Server) else f"http://{server.pair}"


def keys_to(server: Server | S3Server) -> S3Credentials:
    return S3Credentials.model_validate(
        {
            "type": "s3",
            "access_key_id": "AKIAEUTERPETESTS",
            "secret_access_key": "the-secret-of-the-tests",
            "endpoint": endpoint_of(server),
        }
    )
