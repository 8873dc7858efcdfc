"""Hostile receivers, as real servers: each causes a typed error, or its answer is read up to the limit."""

import gzip
import socket
import ssl
from collections.abc import Callable

import pytest

from euterpe.net.egress import Egress, EgressResponse
from euterpe.net.errors import EgressBadAnswer, EgressTimeout, EgressUnreachable, EgressUntrusted
from euterpe.net.policy import EgressPolicy
from tests.net.fake_network import NO_TRUST
from tests.net.servers import OK, Authority, Serve, Server, answering, endless, saying, silent

HEAD = b"HTTP/1.1 200 OK\r\n"
SIZED = HEAD + b"content-length: 1000\r\n\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"


def ask(server: Server, *, deadline_s: float = 10, max_bytes: int = 1000) -> EgressResponse:
    with Egress(EgressPolicy([server.pair]), ssl_context=NO_TRUST) as egress:
        return egress.request(
            "POST", server.url, headers={}, body=b"{}", deadline_s=deadline_s, max_bytes=max_bytes
        )


def dripping(start: bytes, drip: bytes, at_once: int = 1) -> Serve:
    def serve(server: Server, sock: socket.socket) -> None:
        server.read_request(sock)
        sock.sendall(start)
        server.drip(sock, drip, at_once)

    return serve


@pytest.mark.parametrize(
    "serve",
    [
        pytest.param(silent, id="accepts and says nothing"),
        pytest.param(dripping(b"", HEAD * 10), id="drips its headers"),
        pytest.param(dripping(b"", b"HTTP/1.1 102 Wait\r\n\r\n" * 40, 10), id="drips informational answers"),
        pytest.param(dripping(SIZED, b"x" * 1000), id="drips a sized body"),
        pytest.param(dripping(CHUNKED, b"1\r\nx\r\n" * 200, 6), id="drips a chunked body"),
        pytest.param(dripping(HEAD + b"\r\n", b"x" * 1000), id="drips a body without a size"),
    ],
)
def test_a_drip_does_not_stretch_the_deadline(serve: Serve) -> None:
    with Server(serve) as server, pytest.raises(EgressTimeout, match=r"within 0\.4 s"):
        ask(server, deadline_s=0.4)


@pytest.mark.parametrize(
    "serve",
    [
        pytest.param(endless(HEAD + b"content-length: 10000000000\r\n\r\n", b"x" * 65536), id="10 GB"),
        pytest.param(endless(CHUNKED, b"8000\r\n" + b"x" * 0x8000 + b"\r\n"), id="chunks without end"),
        pytest.param(endless(HEAD + b"\r\n", b"x" * 65536), id="no size"),
    ],
)
def test_of_an_endless_body_only_the_first_bytes_are_read(serve: Serve) -> None:
    with Server(serve) as server:
        answer = ask(server)
        assert (answer.status, answer.body, answer.truncated) == (200, b"x" * 1000, True)
        assert server.hung_up.acquire(timeout=10)


@pytest.mark.parametrize(
    "serve",
    [
        pytest.param(endless(HEAD, b"x-more: and more\r\n" * 1000), id="headers without end"),
        pytest.param(endless(HEAD + b"x-long: ", b"x" * 65536), id="one header without end"),
        pytest.param(endless(b"", b"x" * 65536), id="a status line without end"),
        pytest.param(endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000), id="100 Continue for ever"),
        pytest.param(endless(CHUNKED, b"1;" + b"x" * 60000 + b"\r\nx\r\n"), id="chunk extensions"),
        pytest.param(endless(CHUNKED + b"1;", b"x" * 60000), id="one chunk extension without end"),
        pytest.param(endless(CHUNKED + b"0\r\n", b"x: y\r\n" * 10000), id="trailers without end"),
        pytest.param(saying(b"<html>hello</html>\r\n\r\n"), id="HTTP/0.9"),
        pytest.param(saying(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), id="another protocol"),
        pytest.param(saying(b"\x00\x01\x02\r\n\r\n"), id="bytes"),
        pytest.param(saying(b"HTTP/1.1 20000 OK\r\n\r\n"), id="no status"),
        pytest.param(saying(HEAD + b"no colon\r\n\r\n"), id="no header"),
        pytest.param(saying(HEAD + b"a\x00b: c\r\n\r\n"), id="NUL in a header"),
        pytest.param(saying(HEAD + b"content-length: -1\r\n\r\n"), id="negative size"),
        pytest.param(saying(HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\nxx"), id="two sizes"),
        pytest.param(saying(HEAD + b"content-length: " + b"9" * 5000 + b"\r\n\r\n"), id="immense size"),
        pytest.param(saying(HEAD + b"transfer-encoding: gzip\r\n\r\n"), id="unknown transfer encoding"),
        pytest.param(saying(b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n"), id="another protocol, unasked"),
        pytest.param(saying(CHUNKED + b"zz\r\n"), id="no chunk size"),
        pytest.param(saying(CHUNKED + b"1\r\nxyz\r\n"), id="longer than its chunk"),
    ],
)
def test_what_is_not_http_or_has_no_end_is_a_bad_answer(serve: Serve) -> None:
    with Server(serve) as server, pytest.raises(EgressBadAnswer) as failed:
        ask(server)
    assert (failed.value.code, failed.value.retryable) == ("egress_bad_answer", True)


@pytest.mark.parametrize(
    "serve",
    [
        pytest.param(saying(), id="hangs up"),
        pytest.param(saying(HEAD), id="hangs up within its headers"),
        pytest.param(saying(b"hello"), id="hangs up within a word"),
        pytest.param(saying(SIZED, b"x" * 999), id="hangs up within its body"),
        pytest.param(saying(CHUNKED, b"1\r\nx\r\n"), id="hangs up before the last chunk"),
        pytest.param(saying(reset=True), id="resets"),
        pytest.param(saying(SIZED, b"x" * 10, reset=True), id="resets within its body"),
    ],
)
def test_a_server_that_hangs_up_within_an_answer_is_unreachable(serve: Serve) -> None:
    with Server(serve) as server, pytest.raises(EgressUnreachable) as failed:
        ask(server)
    assert (failed.value.code, failed.value.retryable) == ("egress_unreachable", True)


def test_a_closed_port_is_unreachable() -> None:
    with Server(silent) as server:
        pass
    with pytest.raises(EgressUnreachable, match="Connection refused"):
        ask(server)


def test_a_gzip_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    head = HEAD + f"content-encoding: gzip\r\ncontent-length: {len(bomb)}\r\n\r\n".encode()
    with Server(answering(head + bomb)) as server:
        answer = ask(server)
    assert (answer.body, answer.truncated) == (bomb[:1000], True)


# -- streams, which have a far deadline and a minimum pace


def download(server: Server) -> bytes:
    with (
        Egress(EgressPolicy([server.pair]), ssl_context=NO_TRUST) as egress,
        egress.open("GET", server.url, headers={}, deadline_s=60, idle_s=0.3) as answer,
    ):
        return b"".join(answer.chunks)


def upload(server: Server) -> EgressResponse:
    with Egress(EgressPolicy([server.pair]), ssl_context=NO_TRUST) as egress:
        chunks = (b"x" * 65536 for _ in range(1024))
        return egress.send(
            "PUT", server.url, headers={}, chunks=chunks, size=1024 * 65536, deadline_s=60, idle_s=0.3
        )


def stalling(server: Server, sock: socket.socket) -> None:
    server.read_request(sock)
    sock.sendall(SIZED + b"x" * 10)
    server.stopping.wait()


def unread(server: Server, sock: socket.socket) -> None:
    sock.recv(1)
    server.stopping.wait()


def unanswered(server: Server, sock: socket.socket) -> None:
    server.read_request(sock)
    server.stopping.wait()


@pytest.mark.parametrize(
    ("go", "serve"),
    [
        pytest.param(download, silent, id="silent from the start"),
        pytest.param(download, dripping(b"", HEAD * 20), id="drips its headers"),
        pytest.param(download, dripping(SIZED, b"x" * 1000), id="drips its body"),
        pytest.param(download, stalling, id="stops within its body"),
        pytest.param(upload, unread, id="does not read what is sent"),
        pytest.param(upload, unanswered, id="reads and does not answer"),
    ],
)
def test_a_transfer_below_the_minimum_pace_is_cut(go: Callable[[Server], object], serve: Serve) -> None:
    with Server(serve) as server, pytest.raises(EgressTimeout, match=r"less than 1 KiB a second for 0\.3 s"):
        go(server)


def test_a_download_that_is_cut_is_unreachable() -> None:
    with Server(saying(SIZED, b"x" * 999)) as server, pytest.raises(EgressUnreachable):
        download(server)


# -- TLS


@pytest.mark.parametrize(
    ("names", "expired", "problem"),
    [
        (["hooks.example"], True, "expired"),
        (["other.example"], False, "Hostname mismatch"),
        (["*.hooks.example"], False, "Hostname mismatch"),
    ],
)
def test_a_certificate_that_does_not_prove_the_name_is_not_trusted(
    authority: Authority, names: list[str], expired: bool, problem: str
) -> None:
    with (
        Server(answering(OK), authority.server_context(names, expired=expired)) as server,
        pytest.raises(EgressUntrusted, match=problem) as failed,
    ):
        ask_tls(server, authority.client_context())
    assert server.requests == []
    assert (failed.value.code, failed.value.retryable) == ("egress_untrusted", True)


def test_an_unknown_authority_is_not_trusted(authority: Authority) -> None:
    with (
        Server(answering(OK), authority.server_context(["hooks.example"])) as server,
        pytest.raises(EgressUntrusted),
    ):
        ask_tls(server, None)
    assert server.requests == []


def test_plain_text_where_tls_was_expected_is_unreachable(authority: Authority) -> None:
    def speak_first(_: Server, sock: socket.socket) -> None:
        sock.sendall(b"220 mail.example ESMTP\r\n")
        sock.recv(65536)

    with Server(speak_first) as server, pytest.raises(EgressUnreachable):
        ask_tls(server, authority.client_context())


def test_a_handshake_that_never_comes_is_a_timeout(authority: Authority) -> None:
    with Server(silent) as server, pytest.raises(EgressTimeout):
        ask_tls(server, authority.client_context(), deadline_s=0.3)


def ask_tls(server: Server, trust: ssl.SSLContext | None, deadline_s: float = 10) -> EgressResponse:
    with Egress(
        EgressPolicy([f"hooks.example:{server.port}"]),
        resolve=lambda _: ["127.0.0.1"],
        ssl_context=trust,
    ) as egress:
        url = f"https://hooks.example:{server.port}/?canary"
        return egress.request("GET", url, headers={}, deadline_s=deadline_s, max_bytes=10)
