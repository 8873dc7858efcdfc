"""Tests of the lists of encoders, muxers and filters that an ffmpeg prints."""

from pathlib import Path

import pytest

from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.ffmpeg_features import FfmpegFeatures, read_features


def test_the_lists_of_the_bundled_ffmpeg_are_read() -> None:
    found = read_features(find_ffmpeg())
    assert {"libx264", "aac", "libsvtav1"} <= found.encoders
    assert {"mp4", "dash", "image2"} <= found.muxers
    assert {"scale", "libvmaf", "split"} <= found.filters
    assert "V" not in found.encoders
    assert "h264_mf_decoder" not in found.encoders


def test_what_is_missing_is_named() -> None:
    here = FfmpegFeatures(frozenset({"aac"}), frozenset({"mp4"}), frozenset({"scale"}))
    needed = FfmpegFeatures(frozenset({"aac", "libx264"}), frozenset({"mov"}), frozenset({"scale"}))
    assert here.missing(needed) == ("encoder libx264", "muxer mov")


@pytest.mark.parametrize("script", ["exit 1", "echo hello", None])
def test_an_ffmpeg_that_prints_no_list_lacks_nothing(tmp_path: Path, script: str | None) -> None:
    path = tmp_path / "ffmpeg"
    if script:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    needed = FfmpegFeatures(frozenset({"aac"}), frozenset({"mp4"}), frozenset({"scale"}))
    assert read_features(path).missing(needed) == ()
