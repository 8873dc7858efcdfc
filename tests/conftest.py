"""Fixtures: one real server per engine and test process, one empty database per test."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.keyring import LocalKeyRing
from euterpe.store.store import Store
from tests import engines
from tests.clock import SettableClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITH_SPARK = (
    *(f"tests/analytics/{name}/" for name in ("cluster", "facts", "ingest", "marts", "source")),
    "tests/batch/",
    "tests/service/test_demo.py",
)
# Two busy cores make any example's time meaningless.
settings.register_profile("euterpe", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("euterpe")


class SparkTogether(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """A test goes to whichever process is free, but all with Spark to one: two on two cores are slower."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(WITH_SPARK) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SparkTogether:
    return SparkTogether(config, log)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], engines.Engine]]:
    """Starts each engine when the first test asks for it."""
    running: dict[str, engines.Engine] = {}

    def get(name: str) -> engines.Engine:
        if name not in running:
            running[name] = engines.start(name, tmp_path_factory.mktemp(name))
        return running[name]

    yield get
    for server in running.values():
        server.stop()


@pytest.fixture(params=engines.ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The test runs once on every engine."""
    return str(request.param)


@pytest.fixture
def url(engine: str, servers: Callable[[str], engines.Engine]) -> Iterator[str]:
    with servers(engine).fresh() as fresh:
        yield fresh


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture(scope="session")
def ring() -> LocalKeyRing:
    return LocalKeyRing(KeySet(where="the tests", active="k1", keys={"k1": b"1" * 32, "k0": b"0" * 32}))


@pytest.fixture
def store(url: str, ring: LocalKeyRing, clock: SettableClock) -> Iterator[Store]:
    """On a settable clock; tidies before every claim, so that what is due now is seen now."""
    with Store(url, ring, clock=clock, sweep_every_ms=0) as opened:
        yield opened


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One Spark session for all tests of a process: starting one takes seconds."""
    from euterpe.analytics.session import spark_session  # noqa: PLC0415  an extra, which few tests need

    with spark_session("local[2]", name="tests") as session:
        yield session
