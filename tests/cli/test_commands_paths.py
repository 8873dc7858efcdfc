"""Options that name a file or a folder of this machine refuse URLs before anything else happens."""

from pathlib import Path

import pytest

from tests.cli.command_runner import Cli

_COMMANDS = (
    ("analytics", "ingest", "--lake", "{}"),
    ("analytics", "run", "--lake", "{}"),
    ("analytics", "run", "--out", "{}"),
    ("analytics", "run", "--prices", "{}"),
    ("analytics", "report", "--lake", "{}"),
    ("analytics", "report", "--out", "{}"),
    ("analytics", "report", "--prices", "{}"),
    ("analytics", "synthesize", "--jobs", "1", "--lake", "{}"),
    ("batch", "submit", "june.csv", "--credentials", "{}"),
    ("batch", "submit", "june.csv", "--rejects", "{}"),
    ("batch", "submit", "june.csv", "--jobs", "{}"),
    ("batch", "status", "june.csv", "--jobs", "{}"),
)


@pytest.mark.parametrize("command", _COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    "url", ["s3://media/lake", "gs://media/lake", "hdfs://node/lake", "file:///srv/lake"]
)
def test_a_url_is_refused_where_a_local_path_is_wanted(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    option = command[-2]
    error = cli.fails(*(word.format(url) for word in command), code=2)
    assert option in error
    assert f"{url} is a URL" in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "manifest", ["gs://media/june.csv", "file:///srv/june.csv", "https://a.example/june.csv"]
)
def test_a_manifest_is_a_path_or_an_s3_url_and_no_other(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest: str
) -> None:
    monkeypatch.chdir(tmp_path)
    error = cli.fails("batch", "submit", manifest, "--dry-run", code=2)
    assert f"{manifest} is a URL" in error
    assert "s3://" in error
    status = cli.fails("batch", "status", manifest, code=2)
    assert f"{manifest} is a URL" in status
