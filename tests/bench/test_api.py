"""Test the benchmark of the API with a short run."""

import pytest

from euterpe.bench.api import measure_api
from euterpe.bench.programs import Installation

pytestmark = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)


def test_posts_and_reads_are_compared_with_bare_handlers(installation: Installation) -> None:
    found = {figure.what: figure for figure in measure_api(installation, seconds=0.2)}
    assert list(found) == ["POST /transcode", "GET /transcode/status", "load generator", "memory of the API"]
    for name in ("POST /transcode", "GET /transcode/status"):
        assert found[name].ratio is not None
        assert found[name].value > 0
