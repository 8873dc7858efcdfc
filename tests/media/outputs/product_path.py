"""Make outputs from a source with the steps of a worker: probe, plan, encode and verify in the sandbox."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import TypeAdapter

from euterpe.domain.outputs import OutputSpecs, encryptions
from euterpe.media.encoding.verify import verify
from euterpe.media.planning.planner import plan
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.media_steps import probe, probe_watermark, run

Specs = Sequence[Mapping[str, Any]]
Make = Callable[[Specs, Path], Path]
CpuSeconds = Callable[[Specs, Path], float]

MakeMarked = Callable[[Specs, Path, Mapping[str, Path]], Path]

_NO_LOGOS: Mapping[str, Path] = MappingProxyType({})
HLS_KEY = bytes.fromhex("c0ffee11c0ffee22c0ffee33c0ffee44")  # the key of all outputs with encryption
_SPECS: TypeAdapter[OutputSpecs] = TypeAdapter(OutputSpecs)


def parsed(outputs: Specs) -> OutputSpecs:
    """Parse outputs that are given as in a request."""
    return _SPECS.validate_python([dict(output) for output in outputs])


def _make(
    sandbox: Sandbox, outputs: Specs, source: Path, folder: Path, logos: Mapping[str, Path] = _NO_LOGOS
) -> float:
    """Write the outputs of a request to the folder. Return the processor time of the encode.

    `logos` maps the URLs of the watermarks to files.
    """
    watermarks = {url: probe_watermark(sandbox, path) for url, path in logos.items()}
    planned = plan(parsed(outputs), probe(sandbox, source), threads=1, watermarks=watermarks)
    stats = run(sandbox, planned, source, folder, watermarks=[*logos.values()])
    keys = {name: HLS_KEY for _, name, _ in encryptions(parsed(outputs))}
    with source.open("rb") as file:
        verify(sandbox, planned, folder, source_fd=file.fileno(), hls_keys=keys)
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
def make_marked(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> MakeMarked:
    """Return a function that makes outputs with watermarks.

    Its last argument maps the URLs of the watermarks to files.
    """

    def make(outputs: Specs, source: Path, logos: Mapping[str, Path]) -> Path:
        folder = tmp_path_factory.mktemp("outputs")
        _make(sandbox, outputs, source, folder, logos)
        return folder

    return make


@pytest.fixture
def cpu_seconds(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> CpuSeconds:
    """Return a function that makes outputs from a source, and returns the processor time of the encode."""

    def cpu_seconds(outputs: Specs, source: Path) -> float:
        return _make(sandbox, outputs, source, tmp_path_factory.mktemp("outputs"))

    return cpu_seconds
