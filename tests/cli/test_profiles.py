"""`euterpe profiles`: the profiles of the installation or of a service."""

from pathlib import Path

import pytest

from euterpe.client.documents import Document
from euterpe.crypto import apikeys
from euterpe.domain.profiles import built_in_profiles
from tests.cli.command_runner import Cli
from tests.client.scripted_server import Answer, running
from tests.domain.test_profiles import OWN


def test_the_built_in_profiles_are_listed_with_what_they_make_and_why(cli: Cli) -> None:
    lines = cli.ok("profiles").out.splitlines()
    assert lines[0].split() == ["profile", "makes", "why"]
    assert len(lines) == 1 + len(built_in_profiles())
    for line, profile in zip(lines[1:], built_in_profiles().values(), strict=True):
        assert line.startswith(profile.name)
        assert profile.description in line
        assert profile.reason in line


def test_the_json_has_all_settings(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "our-own.toml").write_bytes(OWN)
    monkeypatch.setenv("EUTERPE_PROFILES", str(tmp_path))
    found: list[Document] = cli.json("profiles")
    assert [profile["name"] for profile in found] == [*built_in_profiles(), "our-own"]
    assert [profile["name"] for profile in found if not profile["built_in"]] == ["our-own"]
    assert found[-1]["outputs"][0]["video"]["height"] == 720


def test_wrong_profiles_are_wrong_settings(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toml").write_bytes(OWN.replace(b"720", b"721").replace(b"hevc", b"vhs"))
    (tmp_path / "b.toml").write_bytes(b"=")
    monkeypatch.setenv("EUTERPE_PROFILES", str(tmp_path))
    ran = cli("profiles")
    assert (ran.code, ran.out) == (2, "")
    lines = ran.err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("error: EUTERPE_PROFILES: ") for line in lines)


def test_a_service_is_asked_for_its_profiles(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    # A service of an earlier release sends profiles without `reason`.
    older = [{"name": "h264-720p", "description": "One MP4.", "outputs": []}]
    monkeypatch.setenv("EUTERPE_API_KEY", apikeys.mint().plaintext)
    with running() as server:
        server.script(*[Answer(200, {"profiles": older})] * 2)
        assert cli("profiles", "--url", server.url, "--json").json == older
        shown = cli.ok("profiles", "--url", server.url).out.splitlines()
        assert shown[1].split() == ["h264-720p", "One", "MP4."]
    monkeypatch.delenv("EUTERPE_API_KEY")
    assert "EUTERPE_API_KEY" in cli.fails("profiles", "--url", "http://127.0.0.1:9", code=2)
