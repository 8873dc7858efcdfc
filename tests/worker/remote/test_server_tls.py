"""TLS to the server, with a private certificate authority and with client certificates."""

import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from euterpe.client.requests import ApiRequest
from euterpe.worker.remote.server_connection import ServerConnection
from euterpe.worker.remote.server_errors import ServerUnavailable
from euterpe.worker.remote.server_settings import ServerSettings
from tests.net.servers import OK, Authority, Server, answering

ALIVE = ApiRequest("GET", "/healthz", timeout_s=20)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def ca_file(authority: Authority, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    path.write_text(authority.pem)
    return path


@pytest.fixture
def context(authority: Authority) -> ssl.SSLContext:
    return authority.server_context(["localhost"])


@pytest.fixture
def server(context: ssl.SSLContext) -> Iterator[Server]:
    with Server(answering(*[OK] * 4), context) as started:
        yield started


def ask(server: Server, api_key: str, **settings: Any) -> int:
    url = f"https://localhost:{server.port}"
    with closing(ServerConnection(ServerSettings(url, api_key, **settings), connections=1)) as connection:
        return connection.send(ALIVE).status


def test_a_server_of_ones_own_authority_is_trusted(server: Server, api_key: str, ca_file: Path) -> None:
    assert ask(server, api_key, ca_file=ca_file) == 200
    assert f"Bearer {api_key}".encode() in server.requests[0]


def test_an_unknown_server_gets_no_key(server: Server, api_key: str) -> None:
    with pytest.raises(ServerUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        ask(server, api_key)
    assert server.requests == []


def test_a_proxy_may_ask_for_a_client_certificate(
    authority: Authority, context: ssl.SSLContext, server: Server, api_key: str, ca_file: Path
) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(ca_file)
    with pytest.raises(ServerUnavailable):
        ask(server, api_key, ca_file=ca_file)
    assert server.requests == []
    mine = authority.certificate_file(["worker-eu-1"])
    assert ask(server, api_key, ca_file=ca_file, client_cert=mine, client_key=mine) == 200
