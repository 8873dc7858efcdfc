"""Test the processes that a benchmark starts: errors at the start, a sudden end, memory and CPU time."""

import os

import pytest

from euterpe.bench.figures import BenchFailed
from euterpe.bench.programs import Installation, peak_mib

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def test_a_program_that_does_not_start_is_quoted(installation: Installation) -> None:
    with (
        pytest.raises(BenchFailed, match="EUTERPE_WORKER_SLOTS must be at least 1"),
        installation.running("api", "--port", "0", EUTERPE_WORKER_SLOTS="0") as api,
    ):
        api.address()


def test_a_program_that_has_ended_is_noticed(installation: Installation) -> None:
    with installation.running("api", "--port", "0") as api:
        api.address()
        api.check_running()
        os.kill(api.pid, 9)
        os.waitid(os.P_PID, api.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(BenchFailed, match="exit code -9"):
            api.check_running()


def test_a_service_is_measured_with_its_helper(installation: Installation) -> None:
    with installation.running("serve", "--port", "0") as service:
        service.address()
        (helper,) = service.children()
        assert service.peak_mib() > peak_mib(helper) > 0
        assert service.cpu_seconds() > 0
