"""`euterpe bridge`: each error is one clear line, which contains no address."""

import json
import socket
from pathlib import Path

import pytest

from tests.cli.command_runner import Cli

ADDRESS = "redis://:hunter2@redis.internal:6379/0"
BRIDGES = """
[bridge.videos]
kind = "bullmq"
url_env = "VIDEOS_REDIS"
queue = "video-jobs"
requester = "newsroom"
[bridge.videos.jobs.transcode]
source = "{data.source}"
output = "s3://media-out/{id}/"
profile = "h264-720p"
"""


@pytest.fixture
def declared(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    del cli  # `cli` clears the environment, so it must run first
    path = tmp_path / "bridges.toml"
    path.write_text(BRIDGES)
    monkeypatch.setenv("EUTERPE_BRIDGES", str(path))
    monkeypatch.setenv("VIDEOS_REDIS", ADDRESS)
    return path


@pytest.mark.parametrize("command", ["run", "list", "check"])
def test_bridges_must_be_declared(cli: Cli, command: str) -> None:
    ran = cli("bridge", command)
    assert ran.code != 0
    assert "EUTERPE_BRIDGES is not set: name the TOML file with the bridges" in ran.out + ran.err


@pytest.mark.usefixtures("declared")
def test_the_bridges_are_listed_without_their_addresses(cli: Cli) -> None:
    assert cli.json("bridge", "list") == [
        {
            "name": "videos",
            "kind": "bullmq",
            "queue": "video-jobs",
            "requester": "newsroom",
            "slots": 8,
            "lease_ms": 60_000,
            "jobs": ["transcode"],
        }
    ]
    assert "hunter2" not in cli.ok("bridge", "list").out


def test_a_port_for_metrics_that_is_in_use_is_named(installed: Cli, declared: Path) -> None:
    streams = BRIDGES.replace("bullmq", "streams").replace("queue =", "stream =")
    declared.write_text(streams)
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        line = installed.fails("bridge", "run", "--metrics-port", str(port))
    assert f"--metrics-port {port}: Address already in use" in line


@pytest.mark.usefixtures("declared")
def test_a_bridge_that_is_not_declared_is_an_error(cli: Cli) -> None:
    assert cli.fails("bridge", "run", "--name", "other", code=2).endswith(
        "there is no bridge 'other'; there are videos"
    )


def test_a_wrong_file_is_one_line_for_each_error(cli: Cli, declared: Path) -> None:
    declared.write_text(BRIDGES.replace("newsroom", "").replace("{id}", "{1+1}"))
    ran = cli("bridge", "list")
    assert (ran.code, len(ran.err.splitlines())) == (2, 2)


def test_a_storage_profile_must_be_allowed_to_the_requester(cli: Cli, declared: Path) -> None:
    declared.write_text(BRIDGES + 'storage = "main"\n')
    assert "jobs.transcode.storage must be a storage profile" in cli.fails("bridge", "list", code=2)


@pytest.mark.usefixtures("declared")
def test_without_the_package_the_way_to_install_it_is_shown(cli: Cli) -> None:
    """The package `bullmq` is in a separate environment, and not in the environment of the tests."""
    cli.ok("migrate")
    assert "this needs the package bullmq" in cli.fails("bridge", "run")


@pytest.mark.usefixtures("declared")
def test_a_check_names_what_is_wrong(cli: Cli) -> None:
    cli.ok("migrate")
    ran = cli("bridge", "check", "--json")
    found = {result["check"]: result for result in json.loads(ran.out)}
    assert ran.code == 1
    assert found["bridge videos: mapping"]["ok"]
    assert "there is no requester 'newsroom'" in found["bridge videos: requester"]["detail"]
    assert "hunter2" not in ran.out


def test_without_omniqs_client_the_way_to_install_it_is_shown(cli: Cli, declared: Path) -> None:
    """The client is under the GPL, so it is not installed in the environment of the tests."""
    declared.write_text(BRIDGES.replace('"bullmq"', '"omniq"'))
    cli.ok("migrate")
    assert "`pip install omniq` where the bridge runs" in cli.fails("bridge", "run")
    assert "under the GPL" in cli("bridge", "check").out
