"""The examples of docs/integrate.md work as they are shown."""

import asyncio
import importlib.util
import inspect
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

import euterpe.client
from euterpe.client import Client, ClientError
from euterpe.crypto import apikeys
from euterpe.crypto.signing import new_nonce, signature_headers
from euterpe.domain.documents import PlanDocument, example_document
from euterpe.domain.spec import parse_spec
from tests.client.scripted_server import HELLO, JOB_ID, Answer, Server, SseStream, event, frame, job, progress

PAGE = (Path(__file__).parents[2] / "docs" / "integrate.md").read_text()
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
OUTPUTS = [{"name": "mp4", "url": "s3://out/a/mp4.mp4"}]
EVENT_ID = event(4, "succeeded")["event_id"]
CHANGES = ("cancel", "retry")
REFRESH = {"job_id": JOB_ID, "credential_version": 1, "reason": "forbidden", "occurred_at": "…"}

Load = Callable[[str], ModuleType]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


POLL, SYNC, ASYNC, ASGI, FLASK, CREDS = blocks("python")


@pytest.fixture
def load(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Return a function that runs an example in an empty directory, with the variables that the page sets."""
    monkeypatch.setenv("EUTERPE_URL", server.url)
    monkeypatch.setenv("EUTERPE_API_KEY", apikeys.mint().plaintext)
    monkeypatch.setenv("EUTERPE_WEBHOOK_SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "flask", minimal_flask())

    def loaded(code: str) -> ModuleType:
        path = tmp_path / "example.py"
        path.write_text(code)
        spec = importlib.util.spec_from_file_location("example", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return loaded


def minimal_flask() -> ModuleType:
    """Return a module with the parts of Flask that the examples use, so that Flask need not be installed."""
    request = ModuleType("request")

    class Flask:
        def __init__(self, _name: str) -> None:
            self._views: dict[str, Callable[[], Any]] = {}

        def post(self, path: str) -> Callable[[Callable[[], Any]], None]:
            return lambda view: self._views.update({path: view})

        def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            headers = {
                name[5:].replace("_", "-"): value for name, value in environ.items() if name[:5] == "HTTP_"
            }
            vars(request).update(headers=headers, get_data=environ["wsgi.input"].read)
            try:
                body, status, *more = self._views[environ["PATH_INFO"]]()
            except Exception:  # noqa: BLE001  as Flask does
                body, status, more = "", 500, []
            start_response(f"{status} X", [*dict(*more).items()])
            return [body if isinstance(body, bytes) else body.encode()]

    flask = ModuleType("flask")
    vars(flask).update(Flask=Flask, request=request)
    return flask


def delivery(document: Any = None, secret: str = SECRET) -> dict[str, Any]:
    """Return a request as the dispatcher sends it, with a new nonce each time."""
    body = json.dumps(document or event(4, "succeeded", outputs=OUTPUTS)).encode()
    headers = signature_headers([secret], EVENT_ID, body, int(time.time()), new_nonce())
    return {"content": body, "headers": headers}


# -- the client


def test_the_poll_asks_again_with_what_it_knows_until_the_job_has_finished(
    load: Load, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script(
        Answer(200, job(progress=0.0), {"etag": '"a"'}), Answer(304), Answer(200, job("failed", progress=9.5))
    )
    assert load(POLL).finished(JOB_ID)["status"] == "failed"
    assert capsys.readouterr().out == "queued 0.0\nfailed 9.5\n"
    assert [request.headers.get("if-none-match") for request in server.requests] == [None, '"a"', '"a"']
    assert all(request.headers["authorization"].startswith("Bearer eut_") for request in server.requests)


def test_the_first_example_submits_waits_and_prints(
    load: Load, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    succeeded = job("succeeded", outputs=OUTPUTS)
    server.script(Answer(202, job()), Answer(200, job("processing")), Answer(200, succeeded))
    load(SYNC)
    assert capsys.readouterr().out == "mp4 s3://out/a/mp4.mp4\n"
    assert server.requests[0].headers["idempotency-key"] == "asset-42"
    parse_spec(server.requests[0].json)


def test_the_second_example_watches(load: Load, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    frames = [HELLO, frame(1, "claimed"), progress(41.5), frame(2, "succeeded")]
    server.script(Answer(202, job()), SseStream(frames))
    load(ASYNC)
    assert capsys.readouterr().out == "1 claimed\n42 %\n2 succeeded\n"


def curls(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each `curl`, with each variable replaced by its value."""
    words = [os.path.expandvars(word) for word in shlex.split(text.replace("\\\n", " "))]
    starts = [place for place, word in enumerate(words) if word == "curl"]
    for start, end in pairwise([*starts, len(words)]):
        yield words[start + 1 : end]


def call(words: list[str]) -> None:
    """Send the request that `curl` would send with these arguments."""
    options = list(pairwise(words))
    headers = [value.partition(": ")[::2] for name, value in options if name == "-H"]
    (url,) = (word for word in words if word.startswith("http"))
    method, content = dict(options).get("-X", "GET"), dict(options).get("-d")
    httpx.request(method, url, headers=headers, content=content)


@pytest.mark.usefixtures("load")
def test_the_calls_of_curl_are_those_of_the_api(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB", JOB_ID)
    accepted = Answer(202, job())
    profiles = Answer(200, {"profiles": []})
    plan = Answer(200, example_document(PlanDocument))
    server.script(accepted, plan, profiles, Answer(200, job()), SseStream([HELLO]), accepted, accepted)
    for block in blocks("sh"):
        for words in curls(block):
            call(words)
    of_the_job = [f"GET /transcode/{JOB_ID}/events", *(f"POST /transcode/{JOB_ID}/{c}" for c in CHANGES)]
    listed = ["GET /transcode/profiles", "GET /transcode/status"]
    assert server.calls == ["POST /transcode", "POST /transcode", *listed, *of_the_job]
    for request in server.requests[:2]:
        parse_spec(request.json)
    assert [*server.requests[1].query] == [("dry_run", "true")]
    assert dict(server.requests[3].query) == {"job_id": JOB_ID, "wait_ms": "30000"}
    assert all(request.headers["authorization"].startswith("Bearer eut_") for request in server.requests)


def test_every_method_and_every_error_is_on_the_page() -> None:
    methods = {name for name, _ in inspect.getmembers(Client, inspect.isfunction) if name[0] != "_"}
    assert {name for name in methods if f"`{name}(" not in PAGE} == {"close"}
    exported = [getattr(euterpe.client, name) for name in euterpe.client.__all__]
    errors = [kind for kind in exported if isinstance(kind, type) and issubclass(kind, ClientError)]
    assert [kind.__name__ for kind in errors if f"`{kind.__name__}`" not in PAGE] == []


# -- the receivers


async def _post(app: Any, **sent: Any) -> int:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://receiver") as sender:
        return (await sender.post("/hook", **sent)).status_code


def test_the_asgi_receiver_takes_an_event_once(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    app = load(ASGI).app
    sent = [delivery(), delivery(), delivery(secret="whsec_of_somebody_else"), {"content": b"x" * 1_048_577}]
    assert [asyncio.run(_post(app, **one)) for one in sent] == [204, 204, 401, 413]
    assert capsys.readouterr().out == f"{JOB_ID} 4 succeeded ['s3://out/a/mp4.mp4']\n"


def test_the_asgi_receiver_takes_again_what_it_failed_to_handle(load: Load) -> None:
    example = load(ASGI)
    handled = []

    async def handle(seen: Any) -> None:
        handled.append(seen)
        if len(handled) == 1:
            raise OSError("a bad day")

    vars(example)["handle"] = handle
    assert [asyncio.run(_post(example.app, **delivery())) for _ in range(3)] == [500, 204, 204]
    assert len(handled) == 2


def test_the_flask_receiver_takes_an_event_once_and_again_after_a_failure(
    load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    example = load(FLASK)
    handle, failures = example.handle, iter([True])

    def sometimes(seen: Any) -> None:
        if next(failures, False):
            raise OSError("a bad day")
        handle(seen)

    vars(example)["handle"] = sometimes
    with (
        closing(example.dedupe),
        httpx.Client(transport=httpx.WSGITransport(example.app), base_url="http://receiver") as sender,
    ):
        sent = [delivery(), delivery(), delivery(), delivery(secret="whsec_of_somebody_else")]
        assert [sender.post("/hook", **one).status_code for one in sent] == [500, 204, 204, 401]
    assert capsys.readouterr().out == f"{JOB_ID} 4 succeeded\n"


def test_the_refresh_endpoint_answers_with_credentials(load: Load) -> None:
    app = load(CREDS).app
    with httpx.Client(transport=httpx.WSGITransport(app), base_url="http://receiver") as sender:
        answer = sender.post("/creds", **delivery({**REFRESH, "event_id": EVENT_ID}))
        assert sender.post("/creds", **delivery()).status_code == 401, "a webhook is no refresh call"
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    spec = {"source": {"url": "s3://in/a"}, "output": {"url": "s3://out/"}, "profile": "h264-720p"}
    parse_spec({**spec, **answer.json()})
