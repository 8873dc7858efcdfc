"""Fixtures: an empty folder for the commands, the service that they call, and a shared Spark session."""

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.store.store import Store
from tests import engines
from tests.api.serving import Requester, Served, serving
from tests.cli.command_runner import Cli, capturing


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Remove all settings from the environment, enter an empty folder, and return this folder."""
    for name in [name for name in os.environ if name.startswith(("EUTERPE_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return the command line without Java, so that a command that starts Spark fails."""
    monkeypatch.setenv("JAVA_HOME", str(folder))
    return capturing(capsys)


@pytest.fixture
def with_spark(cli: Cli, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setattr("euterpe.analytics.session.spark_session", lambda *_, **__: nullcontext(spark))
    return cli


@pytest.fixture
def served(servers: Callable[[str], engines.Engine], ring: LocalKeyRing) -> Iterator[Served]:
    with (
        capture_logs(),  # the logs of the service would mix with the output of the commands
        servers("sqlite").fresh() as url,
        Store(url, ring, sweep_every_ms=0) as store,
        serving(store) as served,
    ):
        yield served


@pytest.fixture
def requester(served: Served, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Requester:
    """Return the requester whose key the commands use."""
    del folder  # `folder` clears the environment, so it must run first
    requester = served.requester()
    monkeypatch.setenv("EUTERPE_URL", served.url)
    monkeypatch.setenv("EUTERPE_API_KEY", requester.key)
    return requester
