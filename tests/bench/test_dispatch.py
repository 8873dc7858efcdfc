"""Test the benchmark of the dispatcher with few events."""

import pytest

from euterpe.bench.dead_receivers import measure_black_holes
from euterpe.bench.dispatch import measure_backlog, require_delivered
from euterpe.bench.figures import BenchFailed
from euterpe.bench.programs import Installation
from euterpe.bench.queue import LoadPlan, enqueue_in_bulk, run_to_success

on_both = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
on_sqlite = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@on_both
def test_a_backlog_is_delivered_by_the_dispatcher_and_by_bare_loops(installation: Installation) -> None:
    ours, against_async = measure_backlog(installation, events=100)
    assert ours.value == against_async.value > 0
    assert ours.bare is not None
    assert against_async.bare is not None


@on_sqlite
def test_undelivered_events_fail_the_benchmark(installation: Installation) -> None:
    with installation.requester() as requester, installation.open() as store:
        plan = LoadPlan(installation.settings, requester.requester_id, 1, 1, 1, 1, "http://127.0.0.1:1/hook")
        enqueue_in_bulk(store, plan)
        run_to_success(store, plan)
        with pytest.raises(BenchFailed, match="stop other dispatchers"):
            require_delivered(store, requester.requester_id)


@on_sqlite
def test_black_holes_are_compared_with_receivers_that_answer(installation: Installation) -> None:
    figure = measure_black_holes(installation, seconds=0.5)
    assert figure.bare is not None
    assert figure.value > 0
