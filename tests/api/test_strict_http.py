"""Request smuggling: ambiguous HTTP/1.1 requests are refused, and no bytes after them are read."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from euterpe.api.server import ApiServer
from euterpe.api.strict_http import MalformedRequest, StrictConnection

GOOD = b"GET /good HTTP/1.1\r\nhost: x\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"


class Recorder:
    """An application that records the complete requests that reached it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bytes]] = []

    async def answer(self, request: Request) -> Response:
        body = await request.body()
        self.seen.append((request.url.path, body))
        return PlainTextResponse("here")

    async def answer_at_once(self, _: Request) -> Response:
        """Answer without reading the body, as the API does when it refuses a key."""
        return PlainTextResponse("early", 401)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def server(recorder: Recorder) -> Iterator[ApiServer]:
    methods = ["GET", "POST"]
    app = Starlette(
        routes=[
            Route("/early", recorder.answer_at_once, methods=methods),
            Route("/{path}", recorder.answer, methods=methods),
        ]
    )
    app.state.end_waits = lambda: None
    started = ApiServer(app, "127.0.0.1", 0)
    started.start()
    yield started
    started.stop(drain=False)


def exchange(server: ApiServer, *pieces: bytes) -> list[tuple[int, dict[str, str], bytes]]:
    """Send the pieces and return all answers up to the end of the connection.

    If the server answers and closes the connection before the last piece is sent, the function still reads
    the answer.
    """
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionResetError, BrokenPipeError):
            for piece in pieces:
                client.sendall(piece)
        received = b""
        try:
            while more := client.recv(65_536):
                received += more
        except ConnectionResetError:
            pass
    return answers_in(received)


def answers_in(received: bytes) -> list[tuple[int, dict[str, str], bytes]]:
    answers = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = int(headers["content-length"])
        answers.append((int(status_line.split(" ")[1]), headers, rest[:length]))
        received = rest[length:]
    return answers


def head(*lines: bytes, start: bytes = b"POST /bad HTTP/1.1") -> bytes:
    return b"\r\n".join([start, b"host: x", *lines, b"", b""])


CHUNKED = b"transfer-encoding: chunked"
BAD_HEADS = {
    "both framings": head(b"content-length: 5", CHUNKED) + b"0\r\n\r\n",
    "both framings, the other order": head(CHUNKED, b"content-length: 5") + b"0\r\n\r\n",
    "both framings, length 0": head(CHUNKED, b"content-length: 0") + b"0\r\n\r\n",
    "two lengths": head(b"content-length: 5", b"content-length: 6") + b"hello",
    "the same length twice": head(b"content-length: 5", b"content-length: 5") + b"hello",
    "a list of lengths": head(b"content-length: 5, 5") + b"hello",
    "a signed length": head(b"content-length: +5") + b"hello",
    "a hexadecimal length": head(b"content-length: 0x5") + b"hello",
    "a negative length": head(b"content-length: -1") + b"hello",
    "a length with a blank in it": head(b"content-length: 5 5") + b"hello",
    "an empty length": head(b"content-length:") + b"hello",
    "a length of 21 digits": head(b"content-length: 100000000000000000000") + b"hello",
    "an unknown coding": head(b"transfer-encoding: xchunked") + b"0\r\n\r\n",
    "chunked, then identity": head(b"transfer-encoding: chunked, identity") + b"0\r\n\r\n",
    "identity, then chunked": head(b"transfer-encoding: identity, chunked") + b"0\r\n\r\n",
    "chunked twice": head(CHUNKED, CHUNKED) + b"0\r\n\r\n",
    "chunked in quotes": head(b'transfer-encoding: "chunked"') + b"0\r\n\r\n",
    "chunked behind a vertical tab": head(b"transfer-encoding: \x0bchunked") + b"0\r\n\r\n",
    "an empty coding": head(b"transfer-encoding:") + b"0\r\n\r\n",
    "chunked in HTTP/1.0": head(CHUNKED, start=b"POST /bad HTTP/1.0") + b"0\r\n\r\n",
    "bare LF after every line": b"POST /bad HTTP/1.1\nhost: x\ncontent-length: 0\n\n",
    "bare LF after one line": b"POST /bad HTTP/1.1\r\nhost: x\ncontent-length: 0\r\n\r\n",
    "bare LF at the end of the head": b"POST /bad HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\n",
    "bare LF after the request line": b"POST /bad HTTP/1.1\nhost: x\r\ncontent-length: 0\r\n\r\n",
    "a folded line, by a blank": head(b"x-a: 1", b" content-length: 5", b"content-length: 0"),
    "a folded line, by a tab": head(b"x-a: 1", b"\tb", b"content-length: 0"),
    "a folded coding": head(b"transfer-encoding:", b" chunked") + b"0\r\n\r\n",
    "a blank before the first field": b"POST /bad HTTP/1.1\r\n a: 1\r\nhost: x\r\n\r\n",
    "CR alone in a value": head(b"x-a: 1\rcontent-length: 5", b"content-length: 0"),
    "CR CR LF": head(b"x-a: 1\r", b"content-length: 0"),
    "NUL in a value": head(b"x-a: 1\x002", b"content-length: 0"),
    "NUL in a name": head(b"x\x00a: 1", b"content-length: 0"),
    "another control character in a value": head(b"x-a: 1\x012", b"content-length: 0"),
    "DEL in a value": head(b"x-a: 1\x7f2", b"content-length: 0"),
    "a blank before the colon": head(b"content-length : 5", b"content-length: 0"),
    "a tab before the colon": head(b"transfer-encoding\t: chunked", b"content-length: 0"),
    "a line without a colon": head(b"nothing", b"content-length: 0"),
    "a field without a name": head(b": x", b"content-length: 0"),
    "two hosts": head(b"host: y", b"content-length: 0"),
    "no host": b"POST /bad HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
    "two blanks in the request line": head(b"content-length: 0", start=b"POST  /bad HTTP/1.1"),
    "a tab in the request line": head(b"content-length: 0", start=b"POST\t/bad HTTP/1.1"),
    "no version": head(b"content-length: 0", start=b"POST /bad"),
    "version 0.9": head(b"content-length: 0", start=b"POST /bad HTTP/0.9"),
    "version 2.0": head(b"content-length: 0", start=b"POST /bad HTTP/2.0"),
    "version 1.2": head(b"content-length: 0", start=b"POST /bad HTTP/1.2"),
    "an empty line first": b"\r\n" + head(b"content-length: 0"),
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "too many headers": head(*(b"x-%d: %s" % (i, b"a" * 1000) for i in range(100))),
}
BAD_BODIES = {
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "a size that is no number": b"xyz\r\nhello\r\n0\r\n\r\n",
    "a size with a prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a signed size": b"+5\r\nhello\r\n0\r\n\r\n",
    "a size behind a blank": b" 5\r\nhello\r\n0\r\n\r\n",
    "a size before a blank": b"5 \r\nhello\r\n0\r\n\r\n",
    "a size of 20 digits": b"FFFFFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
    "a size beyond 64 bits": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "a size with many zeros": b"00000000000000005\r\nhello\r\n0\r\n\r\n",
    "bare LF after the size": b"5\nhello\r\n0\r\n\r\n",
    "bare CR after the size": b"5\rhello\r\n0\r\n\r\n",
    "bare LF after the data": b"5\r\nhello\n0\r\n\r\n",
    "more data than the size says": b"5\r\nhello!\r\n0\r\n\r\n",
    "LF in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "CR in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "NUL in an extension": b"5;a\x00b\r\nhello\r\n0\r\n\r\n",
    "an extension of 20 KB": b"5;" + b"a" * 20_000 + b"\r\nhello\r\n0\r\n\r\n",
    "bare LF at the end": b"5\r\nhello\r\n0\r\n\n",
    "bare LF after the last chunk": b"5\r\nhello\r\n0\n\r\n",
    "bare LF in a trailer": b"5\r\nhello\r\n0\r\nx-a: 1\n\r\n",
    "a folded trailer": b"5\r\nhello\r\n0\r\nx-a: 1\r\n b\r\n\r\n",
    "CR in a trailer": b"5\r\nhello\r\n0\r\nx-a: 1\r2\r\n\r\n",
    "a length in a trailer": b"5\r\nhello\r\n0\r\ncontent-length: 3\r\n\r\n",
    "a coding in a trailer": b"5\r\nhello\r\n0\r\ntransfer-encoding: chunked\r\n\r\n",
}


def assert_refused(answers: list[tuple[int, dict[str, str], bytes]]) -> None:
    """Check that the only answer is a 400 with a problem document, and that it closes the connection."""
    ((status, headers, body),) = answers
    assert status == 400
    assert headers["connection"] == "close"
    assert headers["content-type"] == "application/problem+json"
    assert headers["x-request-id"]
    document = json.loads(body)
    assert (document["status"], document["code"]) == (400, "malformed_http")


@pytest.mark.parametrize("request_", BAD_HEADS.values(), ids=BAD_HEADS.keys())
def test_a_head_that_can_be_read_in_two_ways_is_refused(
    server: ApiServer, recorder: Recorder, request_: bytes
) -> None:
    assert_refused(exchange(server, request_ + SMUGGLED))
    assert recorder.seen == []


@pytest.mark.parametrize("request_", BAD_HEADS.values(), ids=BAD_HEADS.keys())
def test_a_bad_head_behind_a_good_request_ends_the_connection(
    server: ApiServer, recorder: Recorder, request_: bytes
) -> None:
    first, *others = exchange(server, GOOD + request_ + SMUGGLED)
    assert (first[0], first[2]) == (200, b"here")
    assert_refused(others)
    assert recorder.seen == [("/good", b"")]


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_a_chunked_body_that_can_be_read_in_two_ways_is_refused(
    server: ApiServer, recorder: Recorder, body: bytes
) -> None:
    assert_refused(exchange(server, head(CHUNKED) + body + SMUGGLED))
    assert recorder.seen == []


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_a_bad_body_is_refused_however_its_bytes_arrive(
    server: ApiServer, recorder: Recorder, body: bytes
) -> None:
    whole = head(CHUNKED) + body
    step = max(1, len(whole) // 300)
    assert_refused(exchange(server, *(whole[i : i + step] for i in range(0, len(whole), step)), SMUGGLED))
    assert recorder.seen == []


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_a_bad_body_of_a_request_that_was_answered_ends_the_connection(
    server: ApiServer, recorder: Recorder, body: bytes
) -> None:
    answers = exchange(server, head(CHUNKED, start=b"POST /early HTTP/1.1"), body + SMUGGLED)
    assert [status for status, _, _ in answers] in ([401], [400])
    assert recorder.seen == []


def test_garbage_behind_a_request_ends_the_connection(server: ApiServer, recorder: Recorder) -> None:
    request_ = head(b"content-length: 5", start=b"POST /good HTTP/1.1") + b"hello" + b"garbage\r\n\r\n"
    first, *others = exchange(server, request_ + SMUGGLED)
    assert first[0] == 200
    assert_refused(others)
    assert recorder.seen == [("/good", b"hello")]


GOOD_BODIES = {
    "one chunk": b"5\r\nhello\r\n0\r\n\r\n",
    "many chunks": b"".join(b"1\r\n%c\r\n" % byte for byte in b"hello") + b"0\r\n\r\n",
    "a size with a zero in front": b"05\r\nhello\r\n0\r\n\r\n",
    "extensions": b'5;a=b;c="d e"\r\nhello\r\n0;last\r\n\r\n',
    "trailers": b"5\r\nhello\r\n0\r\nx-a: 1\r\nx-b: 2\r\n\r\n",
}


@pytest.mark.parametrize("body", GOOD_BODIES.values(), ids=GOOD_BODIES.keys())
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_what_is_well_formed_is_read_however_its_bytes_arrive(
    server: ApiServer, recorder: Recorder, body: bytes, step: int
) -> None:
    whole = head(CHUNKED, start=b"POST /good HTTP/1.1") + body
    last = GOOD.replace(b"host: x", b"host: x\r\nconnection: close")
    answers = exchange(server, *(whole[i : i + step] for i in range(0, len(whole), step)), last)
    assert [status for status, _, _ in answers] == [200, 200]
    assert recorder.seen == [("/good", b"hello"), ("/good", b"")]


def test_ten_requests_in_one_packet_are_answered_in_their_order(
    server: ApiServer, recorder: Recorder
) -> None:
    posts = b"".join(
        head(b"content-length: 1", start=b"POST /p%d HTTP/1.1" % number) + b"%d" % number
        for number in range(10)
    )
    answers = exchange(server, posts + GOOD.replace(b"host: x", b"host: x\r\nconnection: close"))
    assert [status for status, _, _ in answers] == [200] * 11
    assert recorder.seen == [*((f"/p{n}", b"%d" % n) for n in range(10)), ("/good", b"")]


def test_an_answer_to_a_bad_request_shows_nothing_of_it(server: ApiServer) -> None:
    ((_, headers, body),) = exchange(server, head(b"x-api-key: canary\x00"))
    assert b"canary" not in body
    assert "canary" not in str(headers)


def test_a_bad_request_is_logged_once_and_without_its_text(server: ApiServer) -> None:
    with structlog.testing.capture_logs() as logged:
        exchange(server, head(b"x-api-key: canary\x00"))
    (line,) = [line for line in logged if line["event"] == "request_malformed"]
    assert "canary" not in str(line)


def test_a_connection_that_was_refused_once_yields_nothing_more() -> None:
    connection = StrictConnection()
    connection.receive_data(head(CHUNKED, b"content-length: 5") + SMUGGLED)
    for _ in range(3):
        with pytest.raises(MalformedRequest):
            connection.next_event()
