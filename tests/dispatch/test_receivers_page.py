"""The programs of docs/receivers.md accept the requests of the dispatcher and refuse all others.

The Go program is tested only if Go is installed. The Node programs are always tested, because `ci/setup`
needs Node.
"""

import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from euterpe.crypto.signing import (
    mint_webhook_secret,
    new_nonce,
    sign,
    signature_headers,
    standard_headers,
)
from euterpe.domain.canonical import split_secrets
from euterpe.domain.replacement import new_secret
from euterpe.domain.spec import parse_spec
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.dispatcher_harness import WatchedOutbox, add_events, dispatching
from tests.node import NODE_MODULES, node_command, node_env, run_node

PAGE = (Path(__file__).parents[2] / "docs" / "receivers.md").read_text()
TIMEOUT_S = 60.0
SECRET, OLD_SECRET = mint_webhook_secret(), mint_webhook_secret()
EVENT: dict[str, Any] = {"event_id": "e-1", "job_id": "j-1", "sequence": 3, "status": "processing"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


(STANDARD_PYTHON,) = blocks("python")
STANDARD_JAVASCRIPT, NODE = blocks("js")
(GO,) = blocks("go")
CALL, KEYS, SIGNED_URLS = map(json.loads, blocks("json"))


def node_program(folder: Path) -> list[str]:
    script = folder / "receiver.mjs"
    script.write_text(NODE)
    return node_command(script)


def go_program(folder: Path) -> list[str]:
    source, program = folder / "receiver.go", folder / "receiver"
    source.write_text(GO)
    env = {**os.environ, "GOCACHE": str(folder / "cache"), "GOTOOLCHAIN": "local", "GO111MODULE": "off"}
    for arguments in (["vet", str(source)], ["build", "-o", str(program), str(source)]):
        subprocess.run([GO_COMMAND or "go", *arguments], check=True, env=env, cwd=folder)
    return [str(program)]


GO_COMMAND = shutil.which("go")
PROGRAMS = {"node": node_program, **({"go": go_program} if GO_COMMAND else {})}


class ReceiverProcess:
    """A running receiver, its address, and the lines that it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._output = process.stdout
        listening = re.fullmatch(r"listening on (http://127\.0\.0\.1:[0-9]+)\n", self._output.readline())
        assert listening is not None
        self.url = listening[1]
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        for line in self._output:
            with self._changed:
                self._lines.append(line.strip())
                self._changed.notify_all()

    def wait_for_lines(self, count: int) -> list[str]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._lines) >= count, TIMEOUT_S), self._lines
            return list(self._lines)

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        encoded = httpx.Headers(headers, encoding="latin-1")
        return httpx.post(f"{self.url}{path}", content=body, headers=encoded, timeout=TIMEOUT_S)


@contextmanager
def running(command: list[str], *secrets: str) -> Iterator[ReceiverProcess]:
    env = node_env({"EUTERPE_WEBHOOK_SECRET": ",".join(secrets), "PORT": "0"})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        receiver = None
        try:
            receiver = ReceiverProcess(process)
            yield receiver
        finally:
            process.kill()
            if receiver is not None:
                receiver.reader.join()


@pytest.fixture(scope="module", params=PROGRAMS)
def command(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command line of a receiver of the page. The receiver is built once for all tests."""
    build: Callable[[Path], list[str]] = PROGRAMS[request.param]
    return build(tmp_path_factory.mktemp(request.param))


@pytest.fixture
def receiver(command: list[str]) -> Iterator[ReceiverProcess]:
    with running(command, SECRET, OLD_SECRET) as started:
        yield started


def signed(body: bytes, secret: str = SECRET, *, at: float | None = None) -> dict[str, str]:
    return signature_headers([secret], "e-1", body, int(time.time() if at is None else at), new_nonce())


BODY = json.dumps(EVENT).encode()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_every_event_of_the_dispatcher_is_handled_once(
    command: list[str], store: Store, outbox: WatchedOutbox, requester: NewRequester
) -> None:
    with running(command, requester.webhook_secret) as receiver, dispatching(store):
        jobs = add_events(store, requester, f"{receiver.url}/hook", jobs=2, steps=3)
        settled = outbox.wait_settled(6)
        for delivery in settled:
            store.replay.one(delivery.event.event_id)
        settled = outbox.wait_settled(12)
        lines = receiver.wait_for_lines(6)
    assert {delivery.status_code for delivery in settled} == {204}
    steps = ["1 claimed", "2 fetching", "3 processing"]
    assert sorted(lines) == sorted(f"{job_id} {step}" for job_id in jobs for step in steps)


def test_what_is_not_signed_by_a_valid_secret_is_refused(receiver: ReceiverProcess) -> None:
    refused = [
        (BODY, signed(BODY, mint_webhook_secret())),
        (BODY.replace(b"processing", b"succeeded"), signed(BODY)),
        (BODY, {**signed(BODY), "x-euterpe-nonce": new_nonce()}),
        (BODY, {**signed(BODY), "x-euterpe-signature": "v1="}),
        (BODY, {**signed(BODY), "x-euterpe-signature": "v1=é"}),
        (BODY, {**signed(BODY), "x-euterpe-timestamp": "now"}),
        (BODY, {}),
        (BODY, signed(BODY, at=time.time() - 330)),
        (BODY, signed(BODY, at=time.time() + 330)),
    ]
    for path in ("/hook", "/creds"):
        assert [receiver.post(path, *one).status_code for one in refused] == [401] * len(refused)


def test_a_nonce_is_accepted_once(receiver: ReceiverProcess) -> None:
    headers = signed(BODY)
    assert [receiver.post("/hook", BODY, headers).status_code for _ in range(2)] == [204, 401]


def test_both_secrets_of_a_rotation_are_accepted_and_an_event_is_handled_once(
    receiver: ReceiverProcess,
) -> None:
    both = signature_headers([mint_webhook_secret(), OLD_SECRET], "e-1", BODY, int(time.time()), new_nonce())
    for headers in (signed(BODY), signed(BODY, OLD_SECRET), both):
        assert receiver.post("/hook", BODY, headers).status_code == 204
    second = json.dumps({**EVENT, "event_id": "e-2", "sequence": 4}).encode()
    assert receiver.post("/hook", second, signed(second)).status_code == 204
    assert receiver.wait_for_lines(2) == ["j-1 3 processing", "j-1 4 processing"]


def test_a_large_body_and_an_unknown_path_are_refused(receiver: ReceiverProcess) -> None:
    large = b"x" * (1024 * 1024 + 1)
    assert receiver.post("/hook", large, signed(large)).status_code == 413
    assert receiver.post("/other", BODY, signed(BODY)).status_code == 404


def test_a_refresh_call_is_answered_with_credentials_that_the_worker_accepts(
    receiver: ReceiverProcess,
) -> None:
    body = json.dumps(CALL).encode()
    answer = receiver.post("/creds", body, signed(body))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert new_secret(public_part(OBJECTS), answer.json())


# -- the documents of the refresh call

OBJECTS = {"source": {"url": "s3://in/a"}, "output": {"url": "s3://out/"}, "profile": "audio-aac"}
URLS = {
    "source": {"url": "https://in.example/a.mov?signature=old"},
    "output": {"urls": {"video.mp4": "https://out.example/a.mp4?signature=old"}},
    "profile": "audio-aac",
}


def public_part(document: dict[str, Any]) -> dict[str, Any]:
    return split_secrets(parse_spec(document))[0]


def test_the_answers_to_a_refresh_call_are_accepted() -> None:
    assert new_secret(public_part(OBJECTS), KEYS)
    assert new_secret(public_part(URLS), SIGNED_URLS)


# -- the format of Standard Webhooks


def verified_in_python(headers: dict[str, str], body: bytes, secrets: str) -> Any:
    example: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EUTERPE_WEBHOOK_SECRET", secrets)
        exec(STANDARD_PYTHON, example)  # noqa: S102  the code is an example of our own page
    return example["verified"](headers, body)


@pytest.fixture
def verified_in_node(tmp_path: Path) -> Callable[[dict[str, str], bytes, str], Any]:
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    (tmp_path / "standard.mjs").write_text(STANDARD_JAVASCRIPT)
    main = tmp_path / "main.mjs"
    main.write_text(
        'import { readFileSync } from "node:fs";\n'
        'import { verified } from "./standard.mjs";\n'
        "const { headers, body } = JSON.parse(readFileSync(0));\n"
        "console.log(JSON.stringify(verified(headers, Buffer.from(body))));\n"
    )

    def verified(headers: dict[str, str], body: bytes, secrets: str) -> Any:
        sent = json.dumps({"headers": headers, "body": body.decode()})
        return json.loads(run_node(main, env={"EUTERPE_WEBHOOK_SECRET": secrets}, stdin=sent))

    return verified


def test_the_examples_of_standard_webhooks_verify_and_refuse(
    verified_in_node: Callable[[dict[str, str], bytes, str], Any],
) -> None:
    headers = standard_headers([SECRET], "e-1", BODY, int(time.time()))
    for verified in (verified_in_python, verified_in_node):
        assert verified(headers, BODY, f"{OLD_SECRET},{SECRET}") == EVENT
        assert verified(headers, BODY + b" ", SECRET) is None
        assert verified(headers, BODY, OLD_SECRET) is None
        assert verified({**headers, "webhook-signature": "nonsense"}, BODY, SECRET) is None
        assert verified({}, BODY, SECRET) is None


def test_the_test_vector_of_the_signature_is_correct() -> None:
    vector = dict(re.findall(r"^(\w+) +(.+)$", blocks("text")[0], re.MULTILINE))
    signature = sign([vector["secret"]], int(vector["timestamp"]), vector["nonce"], vector["body"].encode())
    assert signature == vector["signature"]
