"""Tests of the minimum pace: a slow source or store holds a slot for at most the window of the pace."""

import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from euterpe.domain.error_codes import RetryClass
from euterpe.net.pace import MinimumPace, TransferPace
from euterpe.storage.errors import StorageError
from euterpe.storage.storage import Storage
from tests.net.servers import Authority, Serve, Server, header
from tests.storage.keys import AZ, GS, S3, credentials
from tests.storage.storage_calls import Download, Upload, destination, source

# The slow peers send 100 bytes in each step of 2 s. By the clock of the tests, this is 50 bytes a second.
WINDOW_S = 20.0  # shorter than the 30 s after which a request counts as idle
STEP_S = 2.0
STRICT = MinimumPace(bytes_per_s=1000, window_s=WINDOW_S)
# A single step sends enough bytes for a whole window, so a thread that wakes late does not make the transfer
# too slow.
LENIENT = MinimumPace(bytes_per_s=5, window_s=WINDOW_S)
OFF = MinimumPace(bytes_per_s=0, window_s=WINDOW_S)
SIZE = 10_000
HEAD = b"HTTP/1.1 200 OK\r\nlast-modified: Wed, 21 Oct 2015 07:28:00 GMT\r\ncontent-length: 10000\r\n\r\n"
DOCUMENTS = {"s3": S3, "gs": GS, "az": AZ}


class PeerClock:
    """A clock that only the slow peer advances, so that a busy machine does not count as a slow peer.

    The peer pauses before it advances the clock. Usually the client has then read all bytes, and its next
    read is blocked. If this read has not begun, the step does not count as waiting time, and the peer takes
    another step.
    """

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        return self._now

    def step(self, server: Server, seconds: float = STEP_S) -> bool:
        """Let time pass. Return False if the test is over."""
        is_over = server.stopping.wait(0.002)
        self._now += seconds
        return not is_over


@pytest.fixture
def clock() -> PeerClock:
    return PeerClock()


def sending_slowly(clock: PeerClock) -> Serve:
    def serve(server: Server, sock: socket.socket) -> None:
        while request := server.read_request(sock):
            sock.sendall(HEAD)
            for _ in range(0, SIZE, 100):
                if request.startswith(b"HEAD") or not clock.step(server):
                    break
                sock.sendall(bytes(100))

    return serve


def receive_slowly(clock: PeerClock, server: Server, sock: socket.socket) -> None:
    """Receive 512 bytes in each step, with a small buffer, so that the sender has to wait."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    while sock.recv(512) and clock.step(server):
        pass


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_source_that_drips_is_too_slow(
    open_storage: Callable[..., Storage], clock: PeerClock, kind: str
) -> None:
    with Server(sending_slowly(clock)) as server:
        storage = open_storage(server, pace=STRICT, clock=clock)
        origin = source(storage, f"{kind}://in/a.mov", credentials(DOCUMENTS[kind], server))
        with pytest.raises(StorageError) as slow:
            Download().fetch(origin)
    assert (slow.value.code, slow.value.retry_class) == ("source_too_slow", RetryClass.TRANSIENT)
    assert "moved less than 1000 bytes a second for 20 s" in str(slow.value)


@pytest.mark.parametrize("pace", [LENIENT, OFF], ids=["lenient", "off"])
def test_a_source_that_keeps_the_pace_is_fetched(
    open_storage: Callable[..., Storage], clock: PeerClock, pace: MinimumPace
) -> None:
    with Server(sending_slowly(clock)) as server:
        storage = open_storage(server, pace=pace, clock=clock, idle_s=1e6)
        origin = source(storage, "s3://in/a.mov", credentials(S3, server))
        assert Download().fetch(origin) == bytes(SIZE)


def test_a_signed_url_that_drips_is_too_slow(
    open_storage: Callable[..., Storage], authority: Authority, clock: PeerClock
) -> None:
    with Server(sending_slowly(clock), authority.server_context(["localhost"])) as server:
        storage = open_storage(server, pace=STRICT, clock=clock)
        origin = source(storage, f"https://localhost:{server.port}/a.mov")
        with pytest.raises(StorageError) as slow:
            Download().fetch(origin)
    assert slow.value.code == "source_too_slow"


@pytest.mark.parametrize("how", ["whole", "parts", "signed"])
def test_a_store_that_receives_slowly_is_too_slow(
    open_storage: Callable[..., Storage], authority: Authority, clock: PeerClock, tmp_path: Path, how: str
) -> None:
    size = {"whole": 490_000, "parts": 1_500_000, "signed": 20_000_000}[how]
    (made := tmp_path / "made.mp4").write_bytes(bytes(size))
    slowly = receive_slowly if how == "signed" else receive_slowly_after_the_first_requests
    tls = authority.server_context(["localhost"]) if how == "signed" else None
    with Server(partial(slowly, clock), tls) as server:
        pace = MinimumPace(bytes_per_s=1_000_000, window_s=WINDOW_S)
        storage = open_storage(server, pace=pace, clock=clock)
        if how == "signed":
            to = destination(storage, {"mp4.mp4": f"https://localhost:{server.port}/out/mp4.mp4"})
        else:
            to = destination(storage, "s3://out/", credentials(S3, server))
        with pytest.raises(StorageError) as slow:
            Upload().put(to, "mp4.mp4", made)
    assert (slow.value.code, slow.value.retry_class) == ("output_too_slow", RetryClass.TRANSIENT)


def receive_slowly_after_the_first_requests(clock: PeerClock, server: Server, sock: socket.socket) -> None:
    head = sock.recv(65536)
    while head.startswith((b"HEAD", b"POST", b"DELETE")):
        body = b"" if head.startswith(b"HEAD") else b"<R><UploadId>u</UploadId></R>"
        status = 404 if head.startswith(b"HEAD") else 200
        sock.sendall(b"HTTP/1.1 %d so\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body)
        head = sock.recv(65536)
    receive_slowly(clock, server, sock)


def test_a_file_below_the_minimum_pace_is_too_slow(
    open_storage: Callable[..., Storage], tmp_path: Path
) -> None:
    (tmp_path / "a.mov").write_bytes(bytes(SIZE))
    impossible = MinimumPace(bytes_per_s=1 << 50, window_s=1e-9)
    origin = source(open_storage(roots=(tmp_path,), pace=impossible), f"file://{tmp_path}/a.mov")
    with pytest.raises(StorageError) as slow:
        Download().fetch(origin)
    assert slow.value.code == "source_too_slow"


def test_a_window_ends_once_its_bytes_have_moved() -> None:
    pace = TransferPace(MinimumPace(bytes_per_s=100, window_s=10))
    pace.add(9.0, 999)
    assert pace.seconds_left == 1.0
    pace.add(0.5, 1)
    assert pace.seconds_left == 10.0


def test_silence_is_not_slowness() -> None:
    pace = TransferPace(MinimumPace(bytes_per_s=100, window_s=10))
    pace.add(11.0, 0)
    assert not pace.is_too_slow
    pace.restart_window()
    pace.add(11.0, 1)
    assert pace.is_too_slow


def test_each_small_file_counts_as_a_second_of_the_pace() -> None:
    pace = TransferPace(MinimumPace(bytes_per_s=100, window_s=10))
    for _ in range(1000):
        pace.add(0.9, 1)
        pace.add_request()
    assert not pace.is_too_slow


def test_disconnecting_after_each_chunk_is_too_slow_as_well(
    open_storage: Callable[..., Storage], clock: PeerClock
) -> None:
    """Each try transfers 64 KiB, which counts as progress. The pace is measured over all tries together."""
    served = threading.Semaphore(0)
    # A fetch with a weak ETag can be resumed, but only the front request fetches bytes.
    weak = b'etag: W/"one"\r\n\r\n'

    def send_some_and_disconnect(server: Server, sock: socket.socket) -> None:
        request = server.read_request(sock)
        if request.startswith(b"HEAD"):
            sock.sendall(HEAD.replace(b"10000", b"40000000").replace(b"\r\n\r\n", b"\r\n" + weak))
            return
        clock.step(server, WINDOW_S / 4)
        start = int((header(request, "range") or "bytes=0-").strip("bytes=-"))
        sock.sendall(
            b"HTTP/1.1 206 so\r\ncontent-range: bytes %d-39999999/40000000\r\n"
            b"content-length: %d\r\n" % (start, 40_000_000 - start) + weak
        )
        sock.sendall(bytes(70_000))
        served.release()

    with Server(send_some_and_disconnect) as server:
        pace = MinimumPace(bytes_per_s=100_000, window_s=WINDOW_S)
        origin = source(
            open_storage(server, pace=pace, clock=clock), "s3://in/a.mov", credentials(S3, server)
        )
        with pytest.raises(StorageError) as slow:
            Download().fetch(origin)
    assert slow.value.code == "source_too_slow"
    assert all(served.acquire(timeout=0) for _ in range(2)), "there was a second try"
