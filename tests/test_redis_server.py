"""The Redis of the tests keeps what was written before it was killed."""

from pathlib import Path

from tests.redis_server import RedisServer


def test_a_killed_server_has_its_data_after_the_restart(tmp_path: Path) -> None:
    with RedisServer(tmp_path, fsync="always") as server:
        with server.client() as client:
            client.set("key", "value")
            server.restart()
            assert client.get("key") == "value"
            assert client.config_get("save") == {"save": ""}
        assert str(tmp_path) not in server.url
