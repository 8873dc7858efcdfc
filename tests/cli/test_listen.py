"""`euterpe listen` as a process that receives webhooks in the form in which the dispatcher sends them."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import httpx
import pytest

from euterpe.crypto.signing import new_nonce, signature_headers
from tests.cli.command_runner import Cli
from tests.client.scripted_server import event

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
BODY = json.dumps(event(4, "succeeded")).encode()
EVENT_ID = event(4, "succeeded")["event_id"]


def signed(body: bytes = BODY, secret: str = SECRET) -> dict[str, str]:
    return signature_headers([secret], EVENT_ID, body, int(time.time()), new_nonce())


class Listener:
    def __init__(self, process: subprocess.Popen[str], stream: IO[str] | None) -> None:
        assert stream is not None
        self._process = process
        self.first_line = stream.readline().strip()
        self.url = self.first_line.split()[2].rstrip(";")

    def post(self, body: bytes, headers: Mapping[str, str]) -> int:
        return httpx.post(self.url, content=body, headers=headers).status_code

    def stop(self, stop_signal: signal.Signals) -> tuple[int, str, str]:
        self._process.send_signal(stop_signal)
        out, err = self._process.communicate(timeout=20)
        return self._process.returncode, out, err


@contextmanager
def listening(folder: Path, *argv: str, **extra: str) -> Iterator[Listener]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("EUTERPE_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "euterpe", "listen", "--port", "0", *argv],
        cwd=folder,
        env={**environ, **extra},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Listener(process, process.stderr if "--json" in argv else process.stdout)
        finally:
            process.kill()


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGTERM])
def test_it_verifies_and_prints_until_a_signal(tmp_path: Path, stop_signal: signal.Signals) -> None:
    with listening(tmp_path, "--secret", "whsec_new", "--secret", SECRET) as receiver:
        assert receiver.post(BODY, signed()) == 204
        assert receiver.post(BODY, signed(secret="another")) == 401
        code, out, err = receiver.stop(stop_signal)
    assert (code, len(out.splitlines()), len(err.splitlines())) == (0, 1, 1)
    assert out.split()[1:] == [event(4, "succeeded")["job_id"], "4", "job.succeeded"]
    assert err.startswith("refused: no signature matches")


def test_for_programs_it_prints_the_events_alone(tmp_path: Path) -> None:
    with listening(tmp_path, "--json", EUTERPE_WEBHOOK_SECRET=SECRET) as receiver:
        assert [receiver.post(BODY, signed()), receiver.post(BODY, signed())] == [204, 204]
        code, out, err = receiver.stop(signal.SIGTERM)
    assert (code, json.loads(out)) == (0, event(4, "succeeded"))
    assert err == f"{EVENT_ID} came again\n"


def test_without_a_secret_it_says_so_and_takes_what_comes(tmp_path: Path) -> None:
    with listening(tmp_path) as receiver:
        assert receiver.first_line.endswith("without --secret nothing is verified")
        assert [receiver.post(BODY, {}), receiver.post(b"[]", {}), receiver.post(b"{", {})] == [204, 400, 400]
        assert receiver.stop(signal.SIGINT)[0] == 0


def test_what_is_too_long_is_not_read(tmp_path: Path) -> None:
    with listening(tmp_path) as receiver:
        answers = [_status_for_length(receiver, length) for length in ("1048577", "9" * 50, "-1", "²")]
        assert answers == [413, 413, 411, 411]
        assert receiver.stop(signal.SIGTERM) == (0, "", "")


def _status_for_length(receiver: Listener, length: str) -> int:
    """Return the status of the answer to a request with this content-length."""
    with closing(http.client.HTTPConnection(receiver.url.split("/")[2])) as connection:
        connection.putrequest("POST", "/")
        connection.putheader("content-length", length.encode("latin-1"))
        connection.endheaders()
        return connection.getresponse().status


def test_a_port_that_is_taken_is_wrong_usage(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "--port" in cli.fails("listen", "--port", str(taken.getsockname()[1]), code=2)
