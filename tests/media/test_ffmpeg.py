"""Tests of finding ffmpeg and checking its version."""

from pathlib import Path

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.ffmpeg import SAFE_VERSION, Ffmpeg, examine_ffmpeg, find_ffmpeg


def test_the_bundled_ffmpeg_is_found_and_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/nothing/here")
    found = examine_ffmpeg(find_ffmpeg())
    assert found.is_safe
    assert tuple(map(int, found.version.split("."))) >= SAFE_VERSION


def test_the_ffmpeg_that_the_operator_names_is_used(tmp_path: Path) -> None:
    named = tmp_path / "ffmpeg"
    named.write_text("#!/bin/sh\necho ffmpeg version n8.1-2 Copyright\n")
    named.chmod(0o755)
    found = examine_ffmpeg(find_ffmpeg(named))
    assert (found.path, found.version, found.is_safe) == (named.resolve(), "8.1", False)


@pytest.mark.parametrize(
    ("version", "safe"), [("9.0.2", True), ("9.1", True), ("10.0", True), ("9.0.1", False)]
)
def test_older_versions_are_not_safe(version: str, safe: bool) -> None:
    assert Ffmpeg(Path("ffmpeg"), version).is_safe is safe


@pytest.mark.parametrize(
    "script", ["exit 1", "echo hello", "echo ffmpeg version 2025-01-27-git-1a2b3c", None]
)
def test_what_is_not_ffmpeg_is_refused(tmp_path: Path, script: str | None) -> None:
    named = tmp_path / "ffmpeg"
    if script:
        named.write_text(f"#!/bin/sh\n{script}\n")
        named.chmod(0o755)
    with pytest.raises(MediaError, match="EUTERPE_FFMPEG") as refused:
        examine_ffmpeg(find_ffmpeg(named))
    assert refused.value.code == "ffmpeg_missing"
