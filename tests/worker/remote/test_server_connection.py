import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from euterpe.client import worker_calls
from euterpe.client.requests import ApiRequest
from euterpe.domain.leased_job import Unavailable
from euterpe.worker.remote.server_connection import ServerConnection
from euterpe.worker.remote.server_errors import (
    AttemptOver,
    CallRefused,
    ProtocolNotSupported,
    ServerUnavailable,
    WorkerKeyRefused,
)
from euterpe.worker.remote.server_settings import ServerSettings
from tests.client.scripted_server import Answer, Disconnect, Server, problem
from tests.net.servers import Authority, answering
from tests.net.servers import Server as NetServer
from tests.worker.remote.answers import OK, Late

CALL = worker_calls.release_claim("w-1", "c-1")
ANSWER = b'HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{"ok": true}'


def test_a_call_carries_key_and_protocol(connection: ServerConnection, server: Server, api_key: str) -> None:
    server.script(OK)
    assert connection.send(CALL).status == 200
    (sent,) = server.requests
    assert sent.path == "/internal/worker/release"
    assert sent.headers["authorization"] == f"Bearer {api_key}"
    assert sent.headers["euterpe-protocol"] == "1"
    assert sent.headers["user-agent"].startswith("euterpe-worker/")


def test_a_path_of_the_address_is_kept(server: Server, api_key: str) -> None:
    server.script(OK)
    connection = ServerConnection(ServerSettings(f"{server.url}/euterpe", api_key), connections=1)
    connection.send(CALL)
    connection.close()
    assert server.calls == ["POST /euterpe/internal/worker/release"]


def test_a_lost_answer_is_asked_for_once_more(connection: ServerConnection, server: Server) -> None:
    server.script(Disconnect(), OK)
    connection.send(CALL)
    assert server.requests[0].body == server.requests[1].body


def test_a_second_lost_answer_is_an_outage(connection: ServerConnection, server: Server) -> None:
    server.script(Disconnect(), Disconnect())
    with pytest.raises(Unavailable, match=r"no answer from 127\.0\.0\.1"):
        connection.send(CALL)
    assert len(server.requests) == 2


def test_a_refused_connection_is_an_outage(api_key: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        connection = ServerConnection(ServerSettings(url, api_key), connections=1)
        with pytest.raises(Unavailable):
            connection.send(CALL)
        connection.close()


def test_a_short_retry_after_is_kept(connection: ServerConnection, server: Server) -> None:
    server.script(problem(503, "database_unavailable", headers={"retry-after": "0"}), OK)
    assert connection.send(CALL).status == 200


def test_a_long_retry_after_is_left_to_the_caller(connection: ServerConnection, server: Server) -> None:
    server.script(problem(503, "stopping", headers={"retry-after": "60"}))
    with pytest.raises(ServerUnavailable) as error:
        connection.send(CALL)
    assert error.value.retry_after_s == 60
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        problem(503, "database_unavailable"),
        problem(500, "internal"),
        Answer(502, b"<html>Bad gateway</html>"),
        problem(429, "overloaded"),
        Answer(404, b"<html>not here</html>"),
        problem(404, "no_route"),
        Answer(409, b""),
        Answer(301, b"", {"location": "https://elsewhere/"}),
    ],
    ids=lambda answer: str(answer.status),
)
def test_an_answer_that_may_change_is_an_outage(
    connection: ServerConnection, server: Server, answer: Answer
) -> None:
    server.script(answer)
    with pytest.raises(ServerUnavailable):
        connection.send(CALL)


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (problem(401, "unauthorized"), WorkerKeyRefused, "worker_key_refused"),
        (problem(403, "forbidden"), WorkerKeyRefused, "worker_key_refused"),
        (problem(426, "protocol_not_supported"), ProtocolNotSupported, "protocol_not_supported"),
        (problem(409, "lease_lost"), AttemptOver, "lease_lost"),
        (problem(409, "attempt_ended", outcome="failed"), AttemptOver, "attempt_ended"),
        (problem(403, "invalid_lease_token"), AttemptOver, "invalid_lease_token"),
        (problem(404, "not_found"), AttemptOver, "not_found"),
        (problem(410, "pruned"), AttemptOver, "pruned"),
        (problem(413, "request_too_large"), CallRefused, "request_too_large"),
        (problem(422, "public_key_required"), CallRefused, "public_key_required"),
    ],
    ids=lambda value: value.status if isinstance(value, Answer) else None,
)
def test_each_refusal_has_its_error(
    connection: ServerConnection, server: Server, answer: Answer, kind: type[Exception], code: str
) -> None:
    server.script(answer)
    with pytest.raises(kind, match="a reason") as error:
        connection.send(CALL)
    assert getattr(error.value, "code", None) == code


def test_a_refused_key_and_an_unsupported_protocol_may_pass_later() -> None:
    """Loops that repeat calls during an outage also repeat calls with these errors, and keep the leases."""
    assert issubclass(WorkerKeyRefused, Unavailable)
    assert issubclass(ProtocolNotSupported, Unavailable)


def test_a_slow_answer_is_an_outage(connection: ServerConnection, server: Server) -> None:
    late = Late(OK)
    server.script(late)
    with pytest.raises(Unavailable, match="TimeoutError"):
        connection.send(ApiRequest("POST", CALL.path, body=CALL.body, timeout_s=0.2))
    late.release()


def test_an_endless_answer_is_cut_off(server: Server, api_key: str) -> None:
    connection = ServerConnection(ServerSettings(server.url, api_key), connections=1, answer_bytes=1000)
    server.script(Answer(200, b" " * 1001))
    with pytest.raises(Unavailable, match="too long"):
        connection.send(CALL)
    connection.close()


def test_close_aborts_a_running_call(connection: ServerConnection, server: Server) -> None:
    late = Late(OK)
    server.script(late)
    errors: list[Exception] = []

    def call() -> None:
        try:
            connection.send(CALL)
        except Unavailable as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert late.arrived.wait(10)
    connection.close()
    thread.join(10)
    late.release()
    assert [str(error) for error in errors] == ["the worker is stopping"]
    with pytest.raises(Unavailable, match="stopping"):
        connection.send(CALL)


# -- idle connections


def close_at_second_request(server: NetServer, sock: socket.socket) -> None:
    """Answer one request, keep the connection open, and close it when the next request has arrived."""
    server.read_request(sock)
    sock.sendall(ANSWER)
    server.read_request(sock)


def test_a_connection_that_the_server_closed_is_replaced(api_key: str) -> None:
    with NetServer(close_at_second_request) as server:
        connection = ServerConnection(ServerSettings(f"http://{server.pair}", api_key), connections=1)
        assert [connection.send(CALL).status for _ in range(2)] == [200, 200]
        connection.close()
        assert server.accepted == 2


# -- TLS


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def ca_file(authority: Authority, tmp_path: Path) -> Path:
    file = tmp_path / "ca.pem"
    file.write_text(authority.pem)
    return file


@pytest.fixture
def tls_server(authority: Authority, ca_file: Path) -> Iterator[Callable[[bool], str]]:
    """Return a function that starts a TLS server, and returns its URL."""
    with ExitStack() as started:

        def start(needs_client_cert: bool) -> str:
            context = authority.server_context(["localhost"])
            if needs_client_cert:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(ca_file)
            server = started.enter_context(NetServer(answering(ANSWER), context))
            return f"https://localhost:{server.port}"

        yield start


def answer_status(settings: ServerSettings) -> int:
    connection = ServerConnection(settings, connections=1)
    try:
        return connection.send(CALL).status
    finally:
        connection.close()


def test_a_certificate_of_the_own_ca_is_trusted(
    tls_server: Callable[[bool], str], ca_file: Path, api_key: str
) -> None:
    assert answer_status(ServerSettings(tls_server(False), api_key, ca_file=ca_file)) == 200


def test_an_unknown_certificate_is_not_trusted(tls_server: Callable[[bool], str], api_key: str) -> None:
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
        answer_status(ServerSettings(tls_server(False), api_key))


def test_a_client_certificate_is_shown(
    tls_server: Callable[[bool], str], authority: Authority, ca_file: Path, api_key: str
) -> None:
    cert = authority.certificate_file(["worker"])
    settings = ServerSettings(tls_server(True), api_key, ca_file=ca_file, client_cert=cert)
    assert answer_status(settings) == 200
