"""Make outputs from a source by the path of the product: probe, plan, encode and verify in the sandbox."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from euterpe.domain.outputs import OutputSpecs
from euterpe.media.encoding.verify import verify
from euterpe.media.planning.planner import plan
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.media_steps import probe, run

Specs = Sequence[Mapping[str, Any]]
Make = Callable[[Specs, Path], Path]
CpuSeconds = Callable[[Specs, Path], float]

_SPECS: TypeAdapter[OutputSpecs] = TypeAdapter(OutputSpecs)


def parsed(outputs: Specs) -> OutputSpecs:
    """Return outputs that are given as in a request."""
    return _SPECS.validate_python([dict(output) for output in outputs])


def _make(sandbox: Sandbox, outputs: Specs, source: Path, folder: Path) -> float:
    """Write the outputs, given as in a request, to the folder. Return the processor time of the encode."""
    planned = plan(parsed(outputs), probe(sandbox, source), threads=1)
    stats = run(sandbox, planned, source, folder)
    with source.open("rb") as file:
        verify(sandbox, planned, folder, source_fd=file.fileno())
    return stats.cpu_seconds


@pytest.fixture
def make(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Return a function that makes outputs from a source, and returns their folder."""

    def make(outputs: Specs, source: Path) -> Path:
        folder = tmp_path_factory.mktemp("outputs")
        _make(sandbox, outputs, source, folder)
        return folder

    return make


@pytest.fixture
def cpu_seconds(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> CpuSeconds:
    """Return a function that makes outputs from a source, and returns the processor time of the encode."""

    def cpu_seconds(outputs: Specs, source: Path) -> float:
        return _make(sandbox, outputs, source, tmp_path_factory.mktemp("outputs"))

    return cpu_seconds
