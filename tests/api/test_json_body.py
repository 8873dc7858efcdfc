"""Request bodies (`bounded`): limits of size and time, and the content types that are read."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from euterpe.api.backpressure import ApiLimits
from euterpe.api.service import ApiTimings
from euterpe.store.store import Store
from tests.api.serving import Requester, Served, assert_problem, serving
from tests.domain.documents import MINIMAL

JSON = {"content-type": "application/json"}


@pytest.fixture
def small(sqlite_store: Store) -> Iterator[Served]:
    with serving(sqlite_store, ApiLimits(max_body_bytes=500)) as served:
        yield served


def padded(size: int) -> bytes:
    raw = json.dumps(MINIMAL).encode()
    return raw + b" " * (size - len(raw))


def test_a_body_of_the_greatest_size_is_read_and_one_byte_more_is_not(small: Served) -> None:
    http = small.requester().http
    assert http.post("/transcode", content=padded(500), headers=JSON).status_code == 202
    assert_problem(http.post("/transcode", content=padded(501), headers=JSON), 413, "request_too_large")


def test_a_body_that_does_not_say_its_length_is_cut_off(small: Served) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b" " * 4096

    answer = small.requester().http.post("/transcode", content=endless(), headers=JSON)
    assert_problem(answer, 413, "request_too_large")
    assert answer.headers["connection"] == "close"


def test_a_body_that_is_announced_too_long_is_not_waited_for(small: Served) -> None:
    key = small.requester().key
    with socket.create_connection((urlsplit(small.url).hostname, urlsplit(small.url).port)) as raw:
        raw.sendall(
            b"POST /transcode HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"expect: 100-continue\r\ncontent-length: 999999999999\r\nx-api-key: "
            + key.encode()
            + b"\r\n\r\n"
        )
        assert raw.recv(65_536).startswith(b"HTTP/1.1 413")


def test_a_slow_body_is_answered_408(sqlite_store: Store) -> None:
    with (
        serving(sqlite_store, timings=ApiTimings(body_s=0.05)) as served,
        socket.create_connection((urlsplit(served.url).hostname, urlsplit(served.url).port)) as raw,
    ):
        raw.sendall(
            b"POST /transcode HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: 100\r\nx-api-key: " + served.requester().key.encode() + b"\r\n\r\n{"
        )
        assert raw.recv(65_536).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
def test_what_is_not_plain_json_is_not_read(requester: Requester, headers: dict[str, str]) -> None:
    answer = requester.http.post("/transcode", content=padded(200), headers=headers)
    assert_problem(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize("kind", ["application/json;charset=utf-8", 'Application/JSON; charset="UTF-8"'])
def test_json_may_say_that_it_is_utf_8(requester: Requester, kind: str) -> None:
    answer = requester.http.post("/transcode", content=padded(200), headers={"content-type": kind})
    assert answer.status_code == 202


def test_a_long_document_is_read_like_a_short_one(requester: Requester) -> None:
    document = {**MINIMAL, "source": {"url": "s3://in/" + "a" * 8_000}, "metadata": {"long": "é" * 1_000}}
    job_id = requester.post(document).json()["job_id"]
    assert requester.status(job_id).json()["metadata"] == document["metadata"]
