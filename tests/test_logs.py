"""Test the log configuration: JSON lines with context, redacted secrets, levels and rate limits."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from euterpe import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level, httpx = root.handlers[:], root.level, logging.getLogger("httpx")
    httpx_level = httpx.level
    logs.configure("debug", stream)
    yield stream
    root.handlers[:], root.level = handlers, level
    httpx.setLevel(httpx_level)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json_with_its_context(stream: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(job_id="j1", attempt=2):
        structlog.get_logger("euterpe.test").info("it happened", count=3)
    (line,) = lines(stream)
    assert {name: line[name] for name in ("event", "job_id", "attempt", "count", "level")} == {
        "event": "it happened",
        "job_id": "j1",
        "attempt": 2,
        "count": 3,
        "level": "info",
    }


def test_the_standard_library_logs_the_same_way(stream: io.StringIO) -> None:
    logging.getLogger("some.library").warning(
        "to %s", "https://h.example/p?sig=canary", extra={"job_id": "j"}
    )
    (line,) = lines(stream)
    assert (line["event"], line["job_id"]) == ("to https://h.example/p", "j")


def test_what_is_below_the_level_is_not_rendered(stream: io.StringIO) -> None:
    class Unrenderable:
        def __str__(self) -> str:
            raise AssertionError

    logs.configure("info", stream)
    structlog.get_logger("euterpe.test").debug("hidden", what=Unrenderable())
    structlog.get_logger("euterpe.test").info("shown")
    assert [line["event"] for line in lines(stream)] == ["shown"]


@pytest.mark.parametrize(
    "fields",
    [
        {"secret_access_key": "canary"},
        {"headers": {"Authorization": "Bearer canary", "x-euterpe-signature": "v1=canary"}},
        {"api_key": "canary"},
        {"url": "https://user:canary@h.example/p"},
        {"url": "postgresql://euterpe:canary@db/x"},
        {"error": "GET https://h.example/p?X-Amz-Signature=canary failed"},
        {"tried": ["eut_abc_canary", "whsec_canary", "whsec_ab+/canary="]},
        {"credentials": {"type": "s3", "key": "canary"}},
    ],
)
def test_no_secret_gets_through(stream: io.StringIO, fields: dict[str, object]) -> None:
    structlog.get_logger().info("event", **fields)
    assert lines(stream)
    assert "canary" not in stream.getvalue()


def test_an_exception_is_logged_without_secrets_in_its_message(stream: io.StringIO) -> None:
    try:
        raise ValueError("https://h.example/?token=canary")  # noqa: TRY301
    except ValueError:
        structlog.get_logger().exception("broke")
    (line,) = lines(stream)
    assert "ValueError" in str(line["exception"])
    assert "canary" not in stream.getvalue()


def test_what_is_no_secret_stays(stream: io.StringIO) -> None:
    structlog.get_logger().info("x", credential_version=3, url="s3://bucket/key")
    (line,) = lines(stream)
    assert (line["credential_version"], line["url"]) == (3, "s3://bucket/key")


def test_a_flood_of_one_line_is_logged_as_some_lines_and_a_count(stream: io.StringIO) -> None:
    for _ in range(5_000):
        structlog.get_logger("euterpe.api").info("request", status=401, route="unmatched")
    structlog.get_logger("euterpe.api").info("request", status=202)
    logging.getLogger().handlers[0].close()
    logged = lines(stream)
    refused = [line for line in logged if line.get("status") == 401 and line["event"] == "request"]
    summaries = [line for line in logged if line["event"] == "log_suppressed"]
    assert len(refused) < 1_000
    assert len(refused) + sum(int(str(line["suppressed"])) for line in summaries) == 5_000
    assert {(line["of"], line["status"], line["level"]) for line in summaries} == {
        ("request", 401, "warning")
    }
    assert [line for line in logged if line.get("status") == 202]


def test_the_requests_of_httpx_are_not_logged(stream: io.StringIO) -> None:
    logging.getLogger("httpx").info("HTTP Request: POST https://e.example/internal/worker/claim")
    logging.getLogger("httpx").warning("something is wrong")
    assert [line["event"] for line in lines(stream)] == ["something is wrong"]
