"""Fixtures: one real server per engine and test process, one empty database per test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.store.store import Store
from tests import engines
from tests.clock import SettableClock
from tests.key_providers import checked_ring
from tests.short_spark import INTERPRETED, JAVA_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_TESTS = (
    *(f"tests/analytics/{name}/" for name in ("cluster", "facts", "ingest", "marts", "source")),
    "tests/analytics/test_impossible_dates.py",
    "tests/batch/",
    "tests/service/test_demo.py",
)
# On two busy cores, Hypothesis examples take an unpredictable time, so they have no deadline.
settings.register_profile("euterpe", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("euterpe")


# The fixtures of these modules take 20 s or more, so they are set up in only one process.
COSTLY_MODULES = ("tests/service/test_demo_player.py", "tests/service/store/test_query_plans.py")


class SparkInOneProcess(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Send each test to a free process, but all Spark tests to one process.

    Two Spark tests at once on two cores would be slower.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(SPARK_TESTS):
            return "spark"
        return nodeid.partition("::")[0] if nodeid.startswith(COSTLY_MODULES) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SparkInOneProcess:
    return SparkInOneProcess(config, log)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], engines.Engine]]:
    """Return a function that starts an engine on first use and returns its server."""
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
    """Return the name of an engine. The test runs once for each engine."""
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
    return checked_ring(k1=b"1" * 32, k0=b"0" * 32)


@pytest.fixture
def store(url: str, ring: LocalKeyRing, clock: SettableClock) -> Iterator[Store]:
    """Yield a store on a settable clock. The store sweeps before every claim, so a claim finds due rows."""
    with Store(url, ring, clock=clock, sweep_every_ms=0) as opened:
        yield opened


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Share one Spark session among all tests of a process, because its start takes seconds."""
    from euterpe.analytics.session import spark_session  # noqa: PLC0415  few tests need this extra

    with ExitStack() as opened:
        with pytest.MonkeyPatch.context() as environ:
            environ.setenv("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
            session = opened.enter_context(spark_session("local[2]", name="tests", config=INTERPRETED))
        yield session
