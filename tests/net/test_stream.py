import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import httpcore
import pytest

from euterpe.net.errors import EgressTimeout, EgressUnreachable
from euterpe.net.limits import RequestLimits
from euterpe.net.stream import GuardedStream
from tests.net.servers import Authority


@pytest.fixture
def pair() -> Iterator[tuple[GuardedStream, socket.socket]]:
    local, peer = socket.socketpair()
    with local, peer:
        yield GuardedStream(local), peer


def request(stream: GuardedStream, body: bytes, limits: RequestLimits) -> None:
    """Write a request as httpcore does: the head, the body, and an empty last part."""
    for part in (b"head ", body, b""):
        stream.write(part, limits)


def test_the_head_of_each_request_goes_out_with_what_follows_it(
    pair: tuple[GuardedStream, socket.socket],
) -> None:
    local, peer = pair
    for body in (b"body", b"", b"another"):
        limits = RequestLimits("here", 10)
        local.write(b"head ", limits)
        with pytest.raises(BlockingIOError):
            peer.recv(100, socket.MSG_DONTWAIT)
        local.write(body, limits)
        assert peer.recv(100) == b"head " + body
        local.write(b"", limits)
        peer.send(b"answer")
        assert local.read(100, limits) == b"answer"


def test_a_body_that_comes_in_pieces_is_sent_as_it_comes(pair: tuple[GuardedStream, socket.socket]) -> None:
    local, peer = pair
    for part, arrives in ((b"head ", b""), (b"one", b"head one"), (b"two", b"two"), (b"", b"")):
        local.write(part, RequestLimits("here", 10))
        if arrives:
            assert peer.recv(100) == arrives
    with pytest.raises(BlockingIOError):
        peer.recv(100, socket.MSG_DONTWAIT)


def test_what_is_written_keeps_the_pace(pair: tuple[GuardedStream, socket.socket]) -> None:
    now = [0.0]
    limits = RequestLimits("here", 100, idle_s=3, clock=lambda: now[0])
    limits.begin_wait()
    now[0] = 2.5
    limits.end_wait(0)
    request(pair[0], b"x" * 3072, limits)
    assert limits.begin_wait() == 3


def test_a_peer_that_reads_nothing_is_a_timeout(pair: tuple[GuardedStream, socket.socket]) -> None:
    with pytest.raises(EgressTimeout):
        request(pair[0], b"x" * 50_000_000, RequestLimits("here", 0.1))


def test_a_write_that_fails_leaves_room_for_an_answer(pair: tuple[GuardedStream, socket.socket]) -> None:
    pair[1].close()
    with pytest.raises(httpcore.WriteError):
        request(pair[0], b"x", RequestLimits("here", 10))


def test_a_reset_is_unreachable_in_the_words_of_the_system(
    pair: tuple[GuardedStream, socket.socket],
) -> None:
    request(pair[0], b"x", RequestLimits("here", 10))
    pair[1].close()  # `close` sends a reset, because a byte is unread
    with pytest.raises(EgressUnreachable, match=r"here: the connection was cut \(Connection reset by peer\)"):
        pair[0].read(10, RequestLimits("here", 10))


def test_an_idle_connection_is_used_again_while_it_is_young_and_quiet() -> None:
    now = 0.0
    local, peer = socket.socketpair()
    with local, peer:
        guarded = GuardedStream(local, lambda: now)
        assert not guarded.get_extra_info("is_readable")
        peer.send(b"unasked")
        assert guarded.get_extra_info("is_readable")
        guarded.read(10, RequestLimits("here", 10))
        now = 60.0
        assert not guarded.get_extra_info("is_readable")
        now = 60.5
        assert guarded.get_extra_info("is_readable")


def test_a_silent_read_calls_back_and_can_be_ended(pair: tuple[GuardedStream, socket.socket]) -> None:
    local, peer = pair
    ticks = count(1)

    def answer_at_the_third() -> None:
        if next(ticks) == 3:
            peer.send(b"answer")

    assert local.read(100, RequestLimits("here", 10, on_wait=answer_at_the_third, tick_s=0.01)) == b"answer"
    assert next(ticks) == 4

    def stop() -> None:
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        local.read(100, RequestLimits("here", 10, on_wait=stop, tick_s=0.01))


def test_a_tick_in_the_middle_of_a_tls_record_loses_nothing(
    authority: Authority,
) -> None:
    local, peer = socket.socketpair()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = authority.server_context(["localhost"]).wrap_bio(incoming, outgoing, server_side=True)

    def shake_hands() -> None:
        while True:
            try:
                return server.do_handshake()
            except ssl.SSLWantReadError:
                peer.sendall(outgoing.read())
                incoming.write(peer.recv(65536))

    with peer, ThreadPoolExecutor(1) as pool:
        shaken = pool.submit(shake_hands)
        secured = authority.client_context().wrap_socket(local, server_hostname="localhost")
        shaken.result()
        server.write(b"x" * 10_000)
        record = outgoing.read()
        peer.sendall(record[:5_000])
        rest = iter([record[5_000:]])
        limits = RequestLimits("here", 10, on_wait=lambda: peer.sendall(next(rest)), tick_s=0.01)
        with secured:
            assert GuardedStream(secured).read(65536, limits) == b"x" * 10_000
