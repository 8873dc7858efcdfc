"""The M/G/c waiting model, compared with Erlang's formula and with a simulated queue."""

import heapq
import math
from collections.abc import Callable

import numpy as np
import pytest

from euterpe.analytics.queueing import erlang_b, erlang_c, fewest_slots, wait_quantile
from tests.analytics.marts import statistical

SERVICE = 100.0
JOBS = 100_000


def lognormal(cv2: float) -> Callable[[np.random.Generator], np.ndarray]:
    sigma = math.sqrt(math.log1p(cv2))
    return lambda draw: draw.lognormal(math.log(SERVICE) - sigma**2 / 2, sigma, JOBS)


def exponential(draw: np.random.Generator) -> np.ndarray:
    return draw.exponential(SERVICE, JOBS)


def simulated(slots: int, load: float, services: Callable[[np.random.Generator], np.ndarray]) -> np.ndarray:
    """Return the simulated wait of each job except the first tenth, because the queue starts empty."""
    draw = np.random.default_rng(slots)
    arrivals = np.cumsum(draw.exponential(SERVICE / load, JOBS)).tolist()
    free_at, waits = [0.0] * slots, []
    for arrival, service in zip(arrivals, services(draw).tolist(), strict=True):
        begin = max(arrival, heapq.heappop(free_at))
        heapq.heappush(free_at, begin + service)
        waits.append(begin - arrival)
    return np.array(waits[JOBS // 10 :])


@pytest.mark.parametrize(("slots", "load"), [(1, 0.5), (4, 3.0), (20, 17.0)])
def test_the_model_of_exponential_service_is_within_a_tenth_of_the_simulation(
    slots: int, load: float
) -> None:
    waits = simulated(slots, load, exponential)
    assert erlang_c(slots, load) == pytest.approx((waits > 0).mean(), rel=0.1)
    assert wait_quantile(slots, load, SERVICE, 1.0) == pytest.approx(np.quantile(waits, 0.95), rel=0.1)


@pytest.mark.parametrize("cv2", [0.25, 1.0, 2.0])
@pytest.mark.parametrize(("slots", "load"), [(2, 1.6), (8, 7.0), (20, 18.0)])
def test_the_model_of_lognormal_service_is_within_a_quarter_of_the_simulation(
    slots: int, load: float, cv2: float
) -> None:
    waits = simulated(slots, load, lognormal(cv2))
    assert wait_quantile(slots, load, SERVICE, cv2) == pytest.approx(np.quantile(waits, 0.95), rel=0.25)


@pytest.mark.parametrize(("load", "cv2"), [(0.3, 1.0), (3.5, 2.0), (12.0, 0.5)])
def test_with_the_slots_of_the_model_the_simulation_keeps_the_target(load: float, cv2: float) -> None:
    slots, expected = fewest_slots(load, SERVICE, cv2, within_seconds=60)
    assert expected <= 60
    assert np.quantile(simulated(slots, load, lognormal(cv2)), 0.95) <= 60 * 1.25


def test_erlangs_formulas() -> None:
    assert erlang_b(1, 0.5) == pytest.approx(1 / 3)
    assert erlang_b(0, 0.5) == 1
    for slots, load in ((1, 0.9), (5, 2.5), (50, 49.0)):
        assert erlang_c(slots, load) == pytest.approx(statistical.erlang_c(slots, load), rel=1e-12)
    assert erlang_c(3, 3.0) == 1


@pytest.mark.parametrize("load", [0.01, 1.0, 7.3, 400.0, 20_000.5])
@pytest.mark.parametrize("target", [0.0, 5.0, 600.0])
def test_one_slot_fewer_would_miss_the_target(load: float, target: float) -> None:
    slots, wait = fewest_slots(load, SERVICE, 1.3, within_seconds=target)
    assert wait <= target
    assert wait == pytest.approx(wait_quantile(slots, load, SERVICE, 1.3))
    fewer = wait_quantile(slots - 1, load, SERVICE, 1.3)
    assert fewer is None or fewer > target


def test_slots_that_cannot_keep_up_have_no_wait_quantile() -> None:
    assert wait_quantile(3, 3.0, SERVICE, 1.0) is None
    assert wait_quantile(0, 0.5, SERVICE, 1.0) is None


def test_the_wait_quantile_is_zero_where_few_jobs_wait() -> None:
    assert wait_quantile(10, 1.0, SERVICE, 1.0) == 0
