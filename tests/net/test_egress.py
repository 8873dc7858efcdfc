import itertools
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from euterpe.net.egress import Egress, EgressResponse
from euterpe.net.errors import EgressRefused, EgressUnreachable
from euterpe.net.policy import EgressPolicy
from tests.net.fake_network import NO_TRUST, FakeResolver, RecordingDialer
from tests.net.servers import OK, Authority, Serve, Server, answering, header, saying

PUBLIC = "93.184.215.14"


@contextmanager
def receiver(serve: Serve) -> Iterator[tuple[Server, Egress]]:
    """Yield a server, and an egress whose policy allows this server."""
    with Server(serve) as server, Egress(EgressPolicy([server.pair]), ssl_context=NO_TRUST) as out:
        yield server, out


def get(out: Egress, url: str, max_bytes: int = 1000) -> EgressResponse:
    return out.request("GET", url, headers={}, deadline_s=10, max_bytes=max_bytes)


def test_a_request_goes_out_as_it_was_given() -> None:
    with receiver(answering(OK)) as (server, out):
        answer = out.request(
            "POST",
            f"{server.url}?token=t%20",
            headers={"Content-Type": "application/json", "x-name": "caf\xe9"},
            body=b'{"a": "\xc3\xa9"}',
            deadline_s=10,
            max_bytes=10,
        )
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /hook?token=t%20 HTTP/1.1\r\n")
    assert body == b'{"a": "\xc3\xa9"}'
    sent = {name: header(head, name) for name in ("host", "content-type", "content-length", "x-name")}
    assert sent == {
        "host": server.pair,
        "content-type": "application/json",
        "content-length": str(len(body)),
        "x-name": "caf\xe9",
    }
    assert answer == EgressResponse(200, {"content-length": "2"}, b"ok", truncated=False)


def test_only_plain_bytes_are_asked_for() -> None:
    with receiver(answering(OK)) as (server, out):
        out.request("GET", server.url, headers={"Accept-Encoding": "gzip"}, deadline_s=10, max_bytes=10)
    assert server.requests[0].lower().count(b"accept-encoding") == 1
    assert header(server.requests[0], "accept-encoding") == "identity"


def test_a_caller_cannot_name_another_host() -> None:
    with receiver(answering(OK)) as (server, out):
        out.request("GET", server.url, headers={"Host": "other.example"}, deadline_s=10, max_bytes=10)
    assert header(server.requests[0], "host") == server.pair


@pytest.mark.parametrize("value", ["a\r\nx-other: b", "a\nb", "a\0b", "\u20ac"])
def test_a_header_cannot_smuggle_another_one(value: str) -> None:
    with receiver(answering(OK)) as (server, out), pytest.raises(ValueError, match=r".+"):
        out.request("GET", server.url, headers={"x-name": value}, deadline_s=10, max_bytes=10)
    assert server.requests == []


@pytest.mark.parametrize("status", [204, 304, 400, 404, 410, 429, 500, 503])
def test_every_status_is_an_answer(status: int) -> None:
    answer = f"HTTP/1.1 {status} So\r\nretry-after: 7\r\n".encode()
    rest = b"\r\n" if status in (204, 304) else b"content-length: 0\r\n\r\n"
    with receiver(answering(answer + rest)) as (server, out):
        got = get(out, server.url)
    assert (got.status, got.headers["retry-after"], got.body) == (status, "7", b"")


def test_informational_answers_are_passed_over() -> None:
    with receiver(answering(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK)) as (server, out):
        assert get(out, server.url).status == 200


def test_headers_of_one_name_are_joined() -> None:
    with receiver(answering(b"HTTP/1.1 204 So\r\nWarning: a\r\nwarning: b\r\n\r\n")) as (server, out):
        assert get(out, server.url).headers == {"warning": "a, b"}


@pytest.mark.parametrize(("max_bytes", "truncated"), [(0, True), (1, True), (2, False), (3, False)])
def test_reading_stops_at_the_cap(max_bytes: int, truncated: bool) -> None:
    with receiver(answering(OK)) as (server, out):
        answer = get(out, server.url, max_bytes)
    assert (answer.body, answer.truncated) == (b"ok"[:max_bytes], truncated)


def test_a_chunked_answer_is_read() -> None:
    chunked = (
        b"HTTP/1.1 200 So\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1;ext=1\r\nd\r\n0\r\nx: y\r\n\r\n"
    )
    with receiver(answering(chunked)) as (server, out):
        assert get(out, server.url).body == b"abcd"


def test_an_answer_that_ends_with_the_connection_is_read() -> None:
    with receiver(saying(b"HTTP/1.0 200 So\r\n\r\nabc", b"d")) as (server, out):
        assert get(out, server.url).body == b"abcd"


def test_no_cookie_is_kept() -> None:
    with receiver(answering(b"HTTP/1.1 204 So\r\nset-cookie: a=b\r\n\r\n")) as (server, out):
        get(out, server.url)
        get(out, server.url)
    assert b"cookie" not in server.requests[1].lower()


# -- connections


def test_a_connection_is_used_again() -> None:
    with receiver(answering(OK)) as (server, out):
        for _ in range(3):
            assert get(out, server.url).body == b"ok"
        assert server.accepted == 1


def test_a_connection_whose_answer_was_not_read_to_its_end_is_not_used_again() -> None:
    with receiver(answering(OK)) as (server, out):
        for _ in range(3):
            get(out, server.url, max_bytes=1)
        assert server.accepted == 3


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    with receiver(saying(OK)) as (server, out):
        for _ in range(3):
            assert get(out, server.url).body == b"ok"
            server.hung_up.acquire()
        assert server.accepted == 3


def test_an_old_connection_is_not_used_again_without_a_new_check() -> None:
    now = 0.0
    resolver = FakeResolver({"h.example": [[PUBLIC], ["10.0.0.1"]]})
    with (
        Server(answering(OK)) as server,
        Egress(EgressPolicy(), resolve=resolver, dial=RecordingDialer(server.port), clock=lambda: now) as out,
    ):
        get(out, "http://h.example/")
        get(out, "http://h.example/")
        assert resolver.lookups == ["h.example"]
        now = 60.5
        with pytest.raises(EgressRefused):
            get(out, "http://h.example/")


def test_two_names_at_one_address_share_no_connection() -> None:
    resolver = FakeResolver({"a.example": [[PUBLIC]], "b.example": [[PUBLIC]]})
    with Server(answering(OK)) as server:
        record = RecordingDialer(server.port)
        with Egress(EgressPolicy(), resolve=resolver, dial=record) as out:
            get(out, "http://a.example/")
            get(out, "http://b.example/")
    assert len(record.dialled) == 2


def test_closing_hangs_up_idle_connections() -> None:
    with receiver(answering(OK)) as (server, out):
        get(out, server.url)
        out.close()
        assert server.hung_up.acquire(timeout=10)


def test_many_threads_share_an_egress() -> None:
    def ask() -> None:
        for _ in range(20):
            answers.append(get(out, server.url).body)

    answers: list[bytes] = []
    with receiver(answering(OK)) as (server, out):
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.accepted <= 8
    assert answers == [b"ok"] * 160


# -- TLS


def test_tls_and_host_use_the_name_and_the_address_is_what_is_dialled(authority: Authority) -> None:
    with Server(answering(OK), authority.server_context(["hooks.example"])) as server:
        record = RecordingDialer(server.port)
        resolver = FakeResolver({"hooks.example": [[PUBLIC]]})
        with Egress(
            EgressPolicy(), resolve=resolver, dial=record, ssl_context=authority.client_context()
        ) as out:
            for _ in range(2):
                assert get(out, "https://hooks.example./").body == b"ok"
    assert record.dialled == [(PUBLIC, 443)]
    assert header(server.requests[0], "host") == "hooks.example"


# -- streams


def test_a_large_answer_is_read_as_it_comes() -> None:
    parts = [bytes([n]) * 100_000 for n in range(50)]
    head = f"HTTP/1.1 206 So\r\netag: x\r\ncontent-length: {sum(map(len, parts))}\r\n\r\n".encode()
    with receiver(answering(head + b"".join(parts))) as (server, out):
        for _ in range(2):
            with out.open("GET", server.url, headers={"range": "bytes=0-"}, deadline_s=10) as answer:
                assert (answer.status, answer.headers["etag"]) == (206, "x")
                assert b"".join(answer.chunks) == b"".join(parts)
        assert server.accepted == 1
    assert header(server.requests[0], "range") == "bytes=0-"


def test_a_stream_that_is_left_early_is_hung_up() -> None:
    class LeftEarly(Exception):
        pass

    def leave() -> None:
        with out.open("GET", server.url, headers={}, deadline_s=10) as answer:
            next(answer.chunks)
            raise LeftEarly

    long = b"HTTP/1.1 200 So\r\ncontent-length: 10000000\r\n\r\n" + b"x" * 10_000_000
    with receiver(saying(long)) as (server, out):
        with pytest.raises(LeftEarly):
            leave()
        assert server.hung_up.acquire(timeout=10)


def test_a_body_is_sent_as_it_comes() -> None:
    with receiver(answering(OK)) as (server, out):
        chunks = (bytes([n]) * 100_000 for n in range(50))
        answer = out.send(
            "PUT", server.url, headers={"x-a": "b"}, chunks=chunks, size=5_000_000, deadline_s=10
        )
    assert (answer.status, answer.body) == (200, b"ok")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert body == b"".join(bytes([n]) * 100_000 for n in range(50))
    assert header(head, "content-length") == "5000000"
    assert header(head, "transfer-encoding") is None


@pytest.mark.parametrize("size", [0, 9, 11])
def test_a_body_of_another_size_than_announced_is_an_error(size: int) -> None:
    with (
        receiver(answering(OK)) as (server, out),
        pytest.raises(ValueError, match=f"a body of {size} bytes was announced"),
    ):
        out.send("PUT", server.url, headers={}, chunks=[b"x" * 10], size=size, deadline_s=10)


def test_the_wait_for_an_answer_is_not_added_to_the_waits_of_its_upload() -> None:
    ticks = itertools.count()
    with (
        Server(answering(OK)) as server,
        Egress(EgressPolicy([server.pair]), ssl_context=NO_TRUST, clock=lambda: float(next(ticks))) as out,
    ):
        answer = out.send(
            "PUT", server.url, headers={}, chunks=[b"x"] * 5, size=5, deadline_s=1000, idle_s=6
        )  # the six writes (headers and chunks) take one tick each
    assert answer.body == b"ok"


def test_what_a_source_of_chunks_raises_comes_out() -> None:
    class Stopped(Exception):
        pass

    def chunks() -> Iterator[bytes]:
        yield b"x"
        raise Stopped

    with receiver(answering(OK)) as (server, out):
        with pytest.raises(Stopped):
            out.send("PUT", server.url, headers={}, chunks=chunks(), size=10, deadline_s=10)
        assert server.hung_up.acquire(timeout=10)


def test_an_early_refusal_of_a_body_is_read() -> None:
    def refuse(_: Server, sock: socket.socket) -> None:
        sock.recv(65536)
        sock.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 6\r\n\r\nno way")
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 20):  # a close with unread bytes would send a reset and lose the answer
            pass

    with receiver(refuse) as (server, out):
        chunks = (b"x" * 65536 for _ in range(200))
        answer = out.send("PUT", server.url, headers={}, chunks=chunks, size=200 * 65536, deadline_s=10)
    assert (answer.status, answer.body) == (403, b"no way")


# -- secrets


def test_no_token_is_in_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    leaky = (
        b"HTTP/1.1 302 So\r\nlocation: /?t=canary\r\nset-cookie: s=canary\r\ncontent-length: 6\r\n\r\ncanary"
    )
    with receiver(answering(leaky)) as (server, out):
        out.request(
            "POST",
            f"{server.url}/canary?t=canary",
            headers={"authorization": "canary"},
            body=b"canary",
            deadline_s=10,
            max_bytes=100,
        )
    assert "canary" not in caplog.text


def test_an_error_names_the_origin_and_no_more() -> None:
    with receiver(saying(b"HTTP/1.1 2canary canary\r\n")) as (server, out):
        with pytest.raises(EgressUnreachable) as failed:
            get(out, f"{server.url}/canary?t=canary")
        assert str(failed.value).startswith(f"http://127.0.0.1:{server.port}: ")
    assert "canary" not in repr(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__
