"""`euterpe gateway`: one-line errors, API keys on other addresses than loopback, a drain on SIGTERM."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.scopes import Scope
from euterpe.store.store import Store
from tests import engines
from tests.cli.command_runner import Cli
from tests.gateway.serving import JOB, GatewayClient, detail
from tests.redis_fixtures import own_redis, redis_server, shared_redis
from tests.redis_server import RedisServer
from tests.service.installation import Program

__all__ = ["own_redis", "redis_server", "shared_redis"]

EVERYWHERE = "0.0.0.0"  # noqa: S104  the gateway asks for keys there
# No settings are inherited. PYTHONPATH names the tree under test if another tree is installed.
ENVIRON = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}


@contextmanager
def running(
    folder: Path, server: RedisServer, *options: str, **environ: str
) -> Iterator[tuple[Program, GatewayClient]]:
    arguments = ("gateway", "--redis", server.url, "--port", "0", *options)
    program = Program(arguments, {**ENVIRON, **environ}, folder)
    try:
        client = GatewayClient(server, program.address().replace(EVERYWHERE, "127.0.0.1"))
        yield program, client
        client.http.close()
    finally:
        if program.is_running:
            program.kill()


def test_it_serves_and_drains(redis_server: RedisServer, tmp_path: Path) -> None:
    with running(tmp_path, redis_server) as (program, gateway):
        job_id = gateway.create()
        with gateway.events(job_id) as stream:
            assert [next(stream).event for _ in range(2)] == ["hello", "queued"]
            assert program.stop() == 0
            assert list(stream) == []  # the stream has ended without an error
        assert "Traceback" not in "".join(program.log)
        assert list(tmp_path.iterdir()) == []  # a gateway on the loopback address makes no database


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://localhost", "error: the address of Redis must begin with redis://, rediss:// or unix://"),
        ("redis://:s3cret@127.0.0.1:1/0", "error: Redis at 127.0.0.1:1 did not do its work: ConnectionError"),
        ("redis://:s3cret@127.0.0.1:x/0", "error: the address of Redis at 127.0.0.1:x is malformed"),
    ],
)
def test_an_error_is_one_line_without_the_password(url: str, says: str, tmp_path: Path) -> None:
    assert failure(tmp_path, "--redis", url) == says


def test_a_port_in_use_and_a_missing_database_are_named(redis_server: RedisServer, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        says = f"error: 127.0.0.1:{port} cannot be listened on: Address already in use"
        assert failure(tmp_path, "--redis", redis_server.url, "--port", port) == says
    says = failure(tmp_path, "--redis", redis_server.url, "--host", EVERYWHERE)
    assert "there is no database euterpe.db; run `euterpe migrate`" in says


def test_a_redis_that_removes_jobs_is_refused(own_redis: RedisServer, tmp_path: Path) -> None:
    with own_redis.client() as redis:
        redis.config_set("maxmemory-policy", "allkeys-lru")
    assert "evicts jobs when it is full: set maxmemory-policy noeviction" in failure(
        tmp_path, "--redis", own_redis.url
    )


def test_doctor_checks_the_redis_of_the_gateway(
    installed: Cli, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finding() -> tuple[bool, str]:
        (row,) = [row for row in installed("doctor", "--json").json if row["check"] == "gateway: redis"]
        return row["ok"], row["detail"]

    monkeypatch.setenv("GATEWAY_REDIS", redis_server.url)
    ok, detail = finding()
    assert ok, detail
    assert detail.endswith("answers")
    monkeypatch.setenv("GATEWAY_REDIS", "redis://:s3cret@127.0.0.1:1/0")
    ok, detail = finding()
    assert not ok
    assert "correct the address in GATEWAY_REDIS" in detail
    assert "s3cret" not in detail


def failure(folder: Path, *arguments: str) -> str:
    """Run the gateway, which must fail. Return the only line on stderr."""
    ran = subprocess.run(
        [sys.executable, "-m", "euterpe", "gateway", *arguments],
        cwd=folder,
        env=ENVIRON,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, ""), ran
    (line,) = ran.stderr.splitlines()
    return line


def test_beyond_the_loopback_address_a_job_belongs_to_its_requester(
    redis_server: RedisServer,
    servers: Callable[[str], engines.Engine],
    ring: LocalKeyRing,
    tmp_path: Path,
) -> None:
    with servers("sqlite").fresh() as url, Store(url, ring) as store:
        owner = store.requesters.create("studio")
        other = store.requesters.create("rival")
        reader = store.requesters.create("viewer", (Scope.READ,))
        options = ("--host", EVERYWHERE)
        with running(tmp_path, redis_server, *options, EUTERPE_DATABASE_URL=url) as (program, gateway):
            detail(gateway.post(), 401, "unauthorized")
            detail(gateway.post(Authorization="Bearer nonsense"), 401, "malformed_api_key")
            detail(gateway.post(X_API_Key=reader.api_key), 403, "forbidden")
            for path in ("/v1/jobs/x", "/v1/jobs/x/events"):
                detail(gateway.http.get(path), 401, "unauthorized")
            detail(gateway.http.post("/v1/jobs/x/cancel"), 401, "unauthorized")

            def as_requester(key: str) -> GatewayClient:
                client = GatewayClient(redis_server, gateway.url)
                client.http = httpx.Client(
                    base_url=gateway.url, headers={"x-api-key": key}, timeout=60, trust_env=False
                )
                return client

            own, rival = as_requester(owner.api_key), as_requester(other.api_key)
            job_id = own.post(JOB, Idempotency_Key="1").json()["job_id"]
            assert own.get(job_id)["status"] == "queued"
            assert "requester_id" not in own.get(job_id)
            assert rival.post(JOB, Idempotency_Key="1").json()["job_id"] != job_id
            for path in (f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/events"):
                detail(rival.http.get(path), 404, "not_found")
            detail(rival.cancel(job_id), 404, "not_found")
            assert own.cancel(job_id).json()["updated"]
            own.http.close()
            rival.http.close()
            assert program.stop() == 0
            assert owner.api_key not in "".join(program.log)
