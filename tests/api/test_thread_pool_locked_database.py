"""The API while another process locks the SQLite database: every call is answered, and reads go on."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import JobError
from euterpe.store.engine.engines import sqlite_file
from euterpe.store.store import Store
from tests import engines
from tests.api.serving import CREDENTIALS, Requester, Served, assert_problem, serving
from tests.domain.documents import MINIMAL
from tests.store.attempts import fail_job
from tests.store.jobs import claim_one

_HOLDER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print(flush=True)
sys.stdin.read()
"""
# A write waits 2 s for the lock, and a client waits 30 s for its answer. If the writes of 50 callers waited
# one after the other, they would take 100 s. The test releases the lock after the last answer.
WRITE_WAIT_S, TIMEOUT_S = 2.0, 30.0


@pytest.fixture
def url(servers: Callable[[str], engines.Engine]) -> Iterator[str]:
    with servers("sqlite").fresh() as fresh:
        yield fresh


@pytest.fixture
def served(url: str, ring: LocalKeyRing) -> Iterator[Served]:
    with Store(url, ring, write_wait_s=WRITE_WAIT_S) as opened, serving(opened) as served:
        yield served


@contextmanager
def write_lock_held(url: str) -> Iterator[None]:
    """Hold the write lock in a second process during the block."""
    command = [sys.executable, "-c", _HOLDER, str(sqlite_file(url))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        try:
            yield
        finally:
            holder.stdin.close()


def calls_to(requester: Requester, waiting: str, failed: str) -> list[Callable[[], httpx.Response]]:
    http = requester.http
    http.timeout = httpx.Timeout(TIMEOUT_S)
    calls = [
        lambda: http.post("/transcode", json=MINIMAL),
        lambda: http.post(f"/transcode/{waiting}/cancel"),
        lambda: http.post(f"/transcode/{failed}/retry"),
        lambda: http.put(f"/transcode/{waiting}/credentials", json={"credentials": CREDENTIALS}),
        lambda: http.post("/transcode", json=MINIMAL, headers={"idempotency-key": "k1"}),
    ]
    return calls * 10


def test_fifty_callers_on_a_locked_database_all_get_their_answer(served: Served, url: str) -> None:
    requester = served.requester()
    failed = requester.submit(credentials=CREDENTIALS)
    fail_job(
        served.store,
        claim_one(served.store),
        JobError(ErrorCode.SOURCE_FORBIDDEN, "403", "claimed", RetryClass.PERMANENT),
    )
    waiting = requester.submit(credentials=CREDENTIALS)
    calls = calls_to(requester, waiting, failed)
    with ThreadPoolExecutor(len(calls)) as threads:
        with write_lock_held(url):
            answers = [future.result() for future in [threads.submit(call) for call in calls]]
        for answer in answers:
            assert_problem(answer, 503, "database_unavailable")
            assert int(answer.headers["retry-after"]) > 0
    assert requester.post().status_code == 202, "the lock is released"
    assert requester.http.post(f"/transcode/{failed}/retry").status_code == 202


def test_reads_do_not_wait_behind_callers_that_wait_to_write(served: Served, url: str) -> None:
    """Each waiting write occupies a thread until its timeout, so reads need separate threads."""
    requester = served.requester()
    waiting = requester.submit()
    with ThreadPoolExecutor(20) as threads, write_lock_held(url):
        writers = [
            threads.submit(requester.http.post, f"/transcode/{waiting}/cancel", timeout=TIMEOUT_S)
            for _ in range(20)
        ]
        for _ in range(5):
            assert requester.status(waiting).status_code == 200
        assert not any(writer.done() for writer in writers), "the reads came first"
        assert {writer.result().status_code for writer in writers} == {503}


def test_whoever_waits_writes_as_soon_as_the_lock_is_gone(url: str, ring: LocalKeyRing) -> None:
    with Store(url, ring, write_wait_s=TIMEOUT_S) as opened, serving(opened) as served:
        requester = served.requester()
        with ThreadPoolExecutor(10) as threads:
            with write_lock_held(url):
                posts = [threads.submit(requester.post) for _ in range(10)]
                assert served.anonymous.get("/healthz").status_code == 200
            assert [post.result().status_code for post in posts] == [202] * 10
