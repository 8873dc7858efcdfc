"""`euterpe bridge`: each error is one clear line, which contains no address."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from euterpe.runtime.installation import install_hint
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


@pytest.mark.usefixtures("installed")
def test_a_port_for_metrics_that_is_in_use_is_named(declared: Path) -> None:
    """A process of its own, because `bridge run` handles SIGINT and SIGTERM until its process ends."""
    streams = BRIDGES.replace("bullmq", "streams").replace("queue =", "stream =")
    declared.write_text(streams.replace("jobs.transcode", "jobs.tool"))
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "euterpe", "bridge", "run", "--metrics-port", str(port)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"--metrics-port {port}: Address already in use" in ran.stderr


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


def test_an_output_must_begin_with_a_prefix_of_its_storage_profile(cli: Cli, declared: Path) -> None:
    profile = """
    [storage.main]
    type = "s3"
    region = "eu-1"
    access_key_id = "AKIA"
    secret_access_key = "hunter3"
    requesters = ["newsroom"]
    prefixes = ["s3://media-in/", "s3://media-out/films/"]
    """
    Path("euterpe.toml").write_text(profile)
    mapping = BRIDGES + 'storage = "main"\n'
    for inside in (
        "s3://media-out/films/{id}/",
        "s3://media-out/{id}/",
        "file:///srv/{id}/",
        "{data.output}",
    ):
        declared.write_text(mapping.replace("s3://media-out/{id}/", inside))
        cli.ok("bridge", "list")
    declared.write_text(mapping.replace("media-out", "media-uot"))
    line = cli.fails("bridge", "list", code=2)
    assert line.endswith(
        "bridge.videos: jobs.transcode.output begins with s3://media-uot/, and not with a prefix of the "
        "storage profile 'main': s3://media-in/, s3://media-out/films/"
    )


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
    assert found["database"] == {
        "check": "database",
        "ok": True,
        "detail": f"sqlite, {Path('euterpe.db').absolute()}",
    }
    assert found["bridge videos: mapping"]["ok"]
    requester = found["bridge videos: requester"]["detail"]
    assert "there is no requester 'newsroom' in this database" in requester
    assert requester.endswith("set EUTERPE_DATABASE_URL to that of the service")
    assert "hunter2" not in ran.out


def test_without_omniqs_client_the_way_to_install_it_is_shown(cli: Cli, declared: Path) -> None:
    """The client is under the GPL, so it is not installed in the environment of the tests."""
    declared.write_text(BRIDGES.replace('"bullmq"', '"omniq"'))
    cli.ok("migrate")
    assert "`pip install omniq` where the bridge runs" in cli.fails("bridge", "run")
    assert "under the GPL" in cli("bridge", "check").out


@pytest.mark.usefixtures("declared")
def test_a_bridge_without_the_database_of_the_service_says_which_setting_to_change(cli: Cli) -> None:
    asked = "there is no database euterpe.db; set EUTERPE_DATABASE_URL to that of the service"
    found = {result["check"]: result for result in json.loads(cli("bridge", "check", "--json").out)}
    assert (found["database"]["ok"], found["database"]["detail"]) == (False, asked)
    assert found["bridge videos: requester"]["detail"] == asked
    assert not Path("euterpe.db").exists()


@pytest.mark.usefixtures("declared")
def test_a_check_shows_the_database_without_its_password(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_DATABASE_URL", "postgresql://u:hunter3@127.0.0.1:1/jobs?password=hunter3")
    ran = cli("bridge", "check")
    assert "postgres, 127.0.0.1:1/jobs" in ran.out
    assert "hunter3" not in ran.out + ran.err


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize("command", [("bridge", "check"), ("doctor",)], ids=" ".join)
def test_without_redis_py_one_check_fails_and_shows_the_command(cli: Cli, command: tuple[str, ...]) -> None:
    cli.ok("migrate")
    rows = json.loads(_without_redis_py(*command, "--json").stdout)
    (failed,) = [row for row in rows if not row["ok"]]
    asked = f"this needs the package redis; {install_hint('bridges')}"
    assert (failed["check"], failed["detail"]) == ("bridges", asked)


def test_without_redis_py_the_gateway_asks_for_its_own_extra(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("migrate")
    monkeypatch.setenv("GATEWAY_REDIS", ADDRESS)
    asked = f"this needs the package redis; {install_hint('gateway')}"
    assert _without_redis_py("gateway").stderr.strip() == f"error: {asked}"
    rows = json.loads(_without_redis_py("doctor", "--json").stdout)
    assert [row["detail"] for row in rows if row["check"] == "gateway: redis"] == [asked]


def _without_redis_py(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that cannot import redis-py, as with only the extra `service`."""
    program = (
        "import sys; sys.modules['redis'] = None; from euterpe.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
