"""The server on loopback, in a process that gets real signals."""

import signal
import subprocess
import sys

import httpx
import pytest

TIMEOUT_S = 30.0
PROGRAM = """
import threading
from http.server import SimpleHTTPRequestHandler
from euterpe.cli.local_server import LocalServer

class Handler(SimpleHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

with LocalServer(("127.0.0.1", 0), Handler) as server:
    server.serve_until_interrupted(lambda: print(server.address, flush=True), {work})
print("ended")
"""


@pytest.mark.parametrize(
    ("work", "ending"),
    [
        ("None", signal.SIGINT),
        ("None", signal.SIGTERM),
        ("lambda: print('work', flush=True)", signal.SIGTERM),
        ("lambda: (print('work', flush=True), threading.Event().wait())", signal.SIGINT),
        ("lambda: (print('work', flush=True), threading.Event().wait())", signal.SIGTERM),
    ],
)
def test_it_answers_until_a_signal(work: str, ending: signal.Signals) -> None:
    program = [sys.executable, "-c", PROGRAM.format(work=work)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if work != "None":
                assert process.stdout.readline() == "work\n"
            assert httpx.get(address).status_code == 404
            process.send_signal(ending)
            out, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "ended\n")
