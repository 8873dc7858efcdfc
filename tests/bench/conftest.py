"""Fixture: an installation on each engine, with a check that a benchmark leaves no rows behind."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from euterpe.bench.programs import Installation
from euterpe.crypto import keyfile
from euterpe.settings import Settings
from tests.bench.traces import rows_left


@pytest.fixture
def installation(url: str, tmp_path: Path) -> Iterator[Installation]:
    keks = tmp_path / "keks.json"
    keyfile.create_file(keks)
    settings = Settings(database_url=url, kek_file=keks)
    environ = {"EUTERPE_DATABASE_URL": url, "EUTERPE_KEK_FILE": str(keks)}
    yield Installation(settings, {"PATH": os.environ["PATH"], **environ})
    assert rows_left(url) == {}
