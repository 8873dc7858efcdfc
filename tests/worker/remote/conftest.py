from collections.abc import Iterator

import pytest

from euterpe.crypto import apikeys
from euterpe.worker.remote.server_connection import ServerConnection
from euterpe.worker.remote.server_settings import ServerSettings
from tests.client.scripted_server import Server, running


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture(scope="session")
def api_key() -> str:
    return apikeys.mint().plaintext


@pytest.fixture
def connection(server: Server, api_key: str) -> Iterator[ServerConnection]:
    made = ServerConnection(ServerSettings(server.url, api_key), connections=4)
    yield made
    made.close()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()
